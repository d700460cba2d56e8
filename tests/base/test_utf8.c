/* SPDX-License-Identifier: Apache-2.0
 * Protects the line between valid and invalid UTF-8 (every lead byte, the Unicode standard's own
 * examples of maximal subparts) and that text comes out the same however its bytes arrive.
 */
#include "base/random.h"
#include "base/utf8.h"
#include "test_case.h"

#define R UTF8_REPLACEMENT

static void repairs(const char *text, size_t count, const char *expected) {
    char out[256];
    size_t got = 0;
    assert_int_equal(utf8_repair((struct bytes){text, count}, out, sizeof out, &got), STATUS_OK);
    assert_int_equal(got, strlen(expected));
    assert_memory_equal(out, expected, got);
}

#define REPAIRS(text, expected) repairs("" text, sizeof(text) - 1, expected)

/* Unicode 15, section 3.9, tables 3-8 to 3-11, and the edges of each range. */
TEST(it_replaces_maximal_parts) {
    REPAIRS("", "");
    REPAIRS("caf\xC3\xA9 \xE4\xB8\xAD \xF0\x9F\x98\x80",
            "caf\xC3\xA9 \xE4\xB8\xAD \xF0\x9F\x98\x80");
    REPAIRS("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", R R R R R R R R "A");
    REPAIRS("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", R R R R R R R R "A");
    REPAIRS("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", R R R R R "A" R R "B");
    REPAIRS("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", R R R R "A");
    REPAIRS("a\xE4\xB8", "a" R);
    REPAIRS("\xF0\x9F\x98", R);
    REPAIRS("\xEF\xBF\xBF\xF4\x8F\xBF\xBF", "\xEF\xBF\xBF\xF4\x8F\xBF\xBF");
    REPAIRS("\xED\x9F\xBF\xEE\x80\x80", "\xED\x9F\xBF\xEE\x80\x80");
    REPAIRS("\xC1\xBF\xF5\x80\x80\x80", R R R R R R);
}

/* Every code point is whole, and not whole when cut short. */
TEST(it_knows_every_character) {
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        char text[4];
        unsigned bytes = utf8_write(c, text), read = 0;
        size_t got = 0;
        enum utf8_kind kind = utf8_next((struct bytes){text, bytes}, &got);
        bool surrogate = c >= 0xD800 && c <= 0xDFFF;
        if (surrogate ? kind != UTF8_INVALID || got != 1 : kind != UTF8_WHOLE || got != bytes)
            fail_msg("U+%04X: kind %d, %zu bytes", c, kind, got);
        if (utf8_read(text, &read) != c || read != bytes ||
            utf8_count((struct bytes){text, bytes}) != 1)
            fail_msg("U+%04X does not read back", c);
        if (bytes > 1 && !surrogate)
            assert_int_equal(utf8_next((struct bytes){text, bytes - 1}, &got), UTF8_CUT);
    }
}

TEST(it_measures_when_room_is_short) {
    char out[4] = "xxxx";
    size_t count = 0;
    assert_int_equal(utf8_repair(BYTES_LITERAL("ab\xFFz"), out, 4, &count), STATUS_FULL);
    assert_int_equal(count, 6);
}

struct gathered {
    char text[4096];
    size_t count;
};

static void gather(void *context, struct bytes text) {
    struct gathered *gathered = context;
    assert_true(text.count > 0);
    assert_int_equal(utf8_valid_prefix(text), text.count);
    memcpy(gathered->text + gathered->count, text.data, text.count);
    gathered->count += text.count;
}

static uint32_t draw(uint32_t *drawn) {
    return (uint32_t)(random_uniform(1, 0, (*drawn)++) * (1 << 24));
}

/* Random bytes, cut anywhere, join to what repairing them whole gives. */
TEST(it_joins_any_pieces) {
    uint32_t random = 0;
    for (int round = 0; round < 20000; round++) {
        static const char alphabet[] =
            "\xE4\xB8\xAD\xF0\x9F\x98\x80\xC3\xA9z\xED\xA0\xF4\x8F\xFF\xE0";
        char text[40], expected[160];
        size_t count = draw(&random) % sizeof text, wanted = 0;
        for (size_t i = 0; i < count; i++)
            text[i] = alphabet[draw(&random) % (sizeof alphabet - 1)];
        struct gathered gathered = {.count = 0};
        struct utf8_joiner joiner = {0};
        for (size_t at = 0; at < count;) {
            size_t piece = draw(&random) % 5;
            if (piece > count - at) piece = count - at;
            utf8_join(&joiner, (struct bytes){text + at, piece}, gather, &gathered);
            at += piece;
        }
        utf8_join_end(&joiner, gather, &gathered);
        assert_int_equal(
            utf8_repair((struct bytes){text, count}, expected, sizeof expected, &wanted),
            STATUS_OK);
        assert_int_equal(gathered.count, wanted);
        assert_memory_equal(gathered.text, expected, wanted);
    }
}
