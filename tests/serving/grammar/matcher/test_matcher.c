/* SPDX-License-Identifier: Apache-2.0
 * The matcher's promises: equal texts stand in equal places, settling changes nothing, and what has
 * no choice is told.
 */
#include "matcher_cases.h"

TEST(equal_texts_stand_in_equal_places) {
    struct matcher_case one;
    case_open(&one, "{\"type\":\"object\"}");
    struct grammar_position begin = matcher_begin(one.matcher);
    struct grammar_position a = matcher_push(one.matcher, begin, BYTES_LITERAL("{\"a\":\"x"));
    struct grammar_position b = matcher_push(one.matcher, begin, BYTES_LITERAL("{\"a\":\"yz"));
    assert_int_equal(a.number, b.number);
}

TEST(settling_keeps_the_place) {
    struct matcher_case one;
    case_open(&one, "{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"uniqueItems\":true}");
    struct grammar_position at =
        matcher_push(one.matcher, matcher_begin(one.matcher), BYTES_LITERAL("[\"a\""));
    for (uint32_t i = 0; i < 20000; i++) { /* far more than the matcher has room for at once */
        at = matcher_push(one.matcher, at, BYTES_LITERAL(" "));
        if (!at.number)
            at = matcher_push(one.matcher, matcher_begin(one.matcher), BYTES_LITERAL("[\"a\""));
        assert_true(matcher_compact(one.matcher, &at));
    }
    at = matcher_push(one.matcher, at, BYTES_LITERAL(",\"b\",\"a"));
    assert_true(at.number != 0);
    assert_int_equal(matcher_push(one.matcher, at, BYTES_LITERAL("\"")).number, 0);
}

TEST(a_text_that_is_done_must_end) {
    struct matcher_case one;
    case_open(&one, "{\"type\":\"integer\"}");
    struct grammar_position begin = matcher_begin(one.matcher);
    struct grammar_position number = matcher_push(one.matcher, begin, BYTES_LITERAL("12"));
    assert_true(matcher_may_end(one.matcher, number));
    assert_false(matcher_must_end(one.matcher, number));
    assert_false(matcher_may_end(one.matcher, begin));
    case_open(&one, "{\"type\":\"null\"}");
    struct grammar_position done =
        matcher_push(one.matcher, matcher_begin(one.matcher), BYTES_LITERAL("null"));
    assert_true(matcher_may_end(one.matcher, done) && matcher_must_end(one.matcher, done));
}
