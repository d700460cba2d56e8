/* SPDX-License-Identifier: Apache-2.0
 * Protects the decoding of bodies: a text comes out as it went in, in whatever pieces it comes and
 * whatever room there is for it, and what is broken, cut off or followed by something else is
 * known.
 */
#include "host/http/content_decoder.h"

#include "packing.h"
#include "test_case.h"

enum { TEXT_BYTES = 300000 };

static const enum content_coding codings[] = {CODING_GZIP, CODING_DEFLATE, CODING_ZSTD};
static char text[TEXT_BYTES], decoded[2 * TEXT_BYTES + 1];

/* Runs, and what cannot be packed. */
static void fill_text(void) {
    uint32_t random = 1;
    for (size_t i = 0; i < sizeof text; i++) {
        random = random * 1664525u + 1013904223u;
        text[i] = i / 50000 % 2 ? 'x' : (char)(random >> 24);
    }
}

/* In pieces of so many bytes, into so much room at a time. -1: broken, -2: it is not whole. */
static int64_t decode(enum content_coding coding, struct bytes packed, size_t piece, size_t room) {
    struct content_decoder *decoder = content_decoder_open(coding);
    size_t count = 0, some = 0;
    int64_t result = 0;
    assert_non_null(decoder);
    while (packed.count && result == 0) {
        struct bytes next = {packed.data, piece < packed.count ? piece : packed.count};
        packed = (struct bytes){packed.data + next.count, packed.count - next.count};
        do {
            assert_true(count + room <= sizeof decoded);
            if (!content_decoder_take(decoder, &next, decoded + count, room, &some)) result = -1;
            count += result ? 0 : some;
        } while (result == 0 && (next.count || some == room));
    }
    if (result == 0) result = content_decoder_is_whole(decoder) ? (int64_t)count : -2;
    content_decoder_close(decoder);
    return result;
}

static void assert_decodes(enum content_coding coding, struct bytes packed, const char *expected,
                           size_t count) {
    static const size_t pieces[][2] = {
        {SIZE_MAX, 16384}, {1, 16384}, {7, 1}, {65536, 4096}, {SIZE_MAX, 1}};
    for (size_t i = 0; i < ARRAY_COUNT(pieces); i++) {
        assert_int_equal(decode(coding, packed, pieces[i][0], pieces[i][1]), (int64_t)count);
        if (count) assert_memory_equal(decoded, expected, count);
    }
}

TEST(a_text_comes_out_as_it_went_in) {
    static const size_t sizes[] = {0, 1, 4095, TEXT_BYTES};
    fill_text();
    for (size_t i = 0; i < ARRAY_COUNT(codings); i++)
        for (size_t j = 0; j < ARRAY_COUNT(sizes); j++) {
            struct bytes packed = packing_make(codings[i], (struct bytes){text, sizes[j]});
            assert_decodes(codings[i], packed, text, sizes[j]);
            packing_free(packed);
        }
}

/* As `cat a.gz b.gz` makes them. */
TEST(parts_may_follow_one_another) {
    for (size_t i = 0; i < ARRAY_COUNT(codings); i++) {
        struct bytes packed = packing_make(codings[i], BYTES_LITERAL("abc"));
        char *twice = malloc(2 * packed.count);
        memcpy(twice, packed.data, packed.count);
        memcpy(twice + packed.count, packed.data, packed.count);
        struct bytes both = {twice, 2 * packed.count};
        if (codings[i] == CODING_DEFLATE)
            assert_int_equal(decode(codings[i], both, SIZE_MAX, 64), -1);
        else
            assert_decodes(codings[i], both, "abcabc", 6);
        free(twice);
        packing_free(packed);
    }
}

TEST(what_is_cut_off_is_not_whole) {
    for (size_t i = 0; i < ARRAY_COUNT(codings); i++) {
        struct bytes packed = packing_make(codings[i], BYTES_LITERAL("{\"prompt\":\"abc\"}"));
        for (size_t cut = 1; cut < packed.count; cut++) {
            struct bytes begun = {packed.data, cut};
            assert_int_equal(decode(codings[i], begun, SIZE_MAX, 64), -2);
        }
        packing_free(packed);
    }
}

TEST(what_is_broken_is_known) {
    for (size_t i = 0; i < ARRAY_COUNT(codings); i++) {
        struct bytes packed = packing_make(codings[i], BYTES_LITERAL("{\"prompt\":\"abc\"}"));
        char behind[256];
        memcpy(behind, packed.data, packed.count);
        memcpy(behind + packed.count, "rest", 4);
        struct bytes both = {behind, packed.count + 4};
        assert_int_equal(decode(codings[i], both, SIZE_MAX, 64), -1);
        assert_int_equal(decode(codings[i], both, 1, 1), -1);
        assert_int_equal(decode(codings[i], BYTES_LITERAL("{\"prompt\":1}"), SIZE_MAX, 64), -1);
        for (size_t j = 0; j < ARRAY_COUNT(codings); j++)
            if (i != j) assert_true(decode(codings[j], packed, SIZE_MAX, 64) < 0);
        packing_free(packed);
    }
}

/* A larger window would be memory that a few bytes make us take. */
TEST(a_window_has_a_bound) {
    /* A frame of one empty block, whose head asks for a window of 8 MiB, and of 16 MiB. */
    static const char good[] = "\x28\xB5\x2F\xFD\x00\x68\x01\x00\x00";
    static const char bad[] = "\x28\xB5\x2F\xFD\x00\x70\x01\x00\x00";
    assert_int_equal(decode(CODING_ZSTD, BYTES_LITERAL(good), SIZE_MAX, 64), 0);
    assert_int_equal(decode(CODING_ZSTD, BYTES_LITERAL(bad), SIZE_MAX, 64), -1);
}
