/* SPDX-License-Identifier: Apache-2.0
 * Protects where a JSON value ends and where a text stops being one: the same as a whole parser
 * says of the whole text.
 */
#include "serving/text/json_scanner.h"
#include "support.h"
#include "test_case.h"

/* 'w': whole, 'b': broken, 'm': more must come. */
static char verdict(struct bytes text, bool tolerant) {
    struct json_scanner scanner = {.tolerant = tolerant};
    for (size_t i = 0; i < text.count; i++)
        if (!json_scanner_next(&scanner, text.data[i])) return 'b';
    return json_scanner_is_whole(&scanner) ? 'w' : 'm';
}

TEST(it_says_where_a_value_ends) {
    static const char *const whole[] = {"{}",
                                        "[]",
                                        " [1, -2.5e+3 , 0.1E9]\n",
                                        "12",
                                        "-0",
                                        "1.5",
                                        "1e5",
                                        "true",
                                        "false",
                                        "null ",
                                        "\"a\\u00e4\\n\"",
                                        "[[],{}]",
                                        "\"\"",
                                        "{\"a\":1}",
                                        "{\"a\" : {\"b\":[]} , \"c\":0}"};
    static const char *const broken[] = {"}",     "]",        "[1,]",       "{\"a\"}", "{1:2}",
                                         "{a:1}", "{\"a\":}", "[01]",       "-a",      "1.e",
                                         "tru ",  "nul1",     "\"\\x\"",    "\"\n\"",  "{} 1",
                                         "[1}",   "\"\\u00g", "{\"a\":1,}", "1e+e",    "[,1]"};
    static const char *const more[] = {"", " ", "{", "[1", "\"a", "\"\\", "-", "1.", "1e", "tru"};
    for (size_t i = 0; i < ARRAY_COUNT(whole); i++)
        assert_int_equal(verdict(bytes_of(whole[i]), false), 'w');
    for (size_t i = 0; i < ARRAY_COUNT(broken); i++)
        assert_int_equal(verdict(bytes_of(broken[i]), false), 'b');
    for (size_t i = 0; i < ARRAY_COUNT(more); i++)
        assert_int_equal(verdict(bytes_of(more[i]), false), 'm');
}

TEST(it_lets_raw_control_bytes_stand_if_asked) {
    assert_int_equal(verdict(BYTES_LITERAL("\"a\nb\""), true), 'w');
    assert_int_equal(verdict(BYTES_LITERAL("[1\x01]"), true), 'b');
}

TEST(it_breaks_at_too_many_levels) {
    char text[JSON_SCANNER_DEPTH_MAX + 1];
    memset(text, '[', sizeof text);
    assert_int_equal(verdict((struct bytes){text, JSON_SCANNER_DEPTH_MAX}, false), 'm');
    assert_int_equal(verdict((struct bytes){text, sizeof text}, false), 'b');
}

/* Random fragments in brackets; the parser alone minds keys that come twice. */
TEST(it_agrees_with_the_parser) {
    static const char *const parts[] = {
        "{",    "}",    "[",  "]",   ",", ":", "\"a\"", "\"b\"", "1",  "-0",      "2.5e-1", " ",
        "true", "null", "\"", "\\n", "0", ".", "e",     "fal",   "se", "{\"k\":", "[]",     "{}"};
    struct arena *arena = test_arena(1 << 16);
    uint64_t random = 23;
    size_t whole = 0;
    for (int round = 0; round < 200000; round++) {
        char text[256] = "[";
        size_t count = 1;
        for (size_t left = test_random(&random) % 8; left > 0; left--) {
            const char *part = parts[test_random(&random) % ARRAY_COUNT(parts)];
            count += (size_t)sprintf(text + count, "%s", part);
        }
        text[count++] = ']';
        const struct tree *root;
        struct error error;
        arena_clear(arena);
        bool parses = !tree_parse(arena, (struct bytes){text, count}, "text", &root, &error);
        bool is_whole = verdict((struct bytes){text, count}, false) == 'w';
        whole += is_whole;
        if (parses != is_whole && !(is_whole && strstr(error.text, "duplicate")))
            fail_msg("'%.*s' is%s whole", (int)count, text, is_whole ? "" : " not");
    }
    assert_true(whole > 10000);
}
