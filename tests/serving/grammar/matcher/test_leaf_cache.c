/* SPDX-License-Identifier: Apache-2.0
 * What is remembered of a leaf's walk is right after much was forgotten.
 */
#include "matcher_cases.h"

TEST(what_was_forgotten_is_found_again) {
    struct matcher_case one;
    uint64_t mask[16];
    case_open(&one, "{\"type\":\"string\",\"pattern\":\"^[ab]{0,3000}$\"}");
    struct grammar_position begin = matcher_begin(one.matcher), at = begin;
    for (uint32_t i = 0; i < 2990; i++) {
        at = matcher_push(one.matcher, at, i ? BYTES_LITERAL("a") : BYTES_LITERAL("\""));
        assert_true(matcher_compact(one.matcher, &at));
        matcher_mask(one.matcher, at, mask);
        if (i % 1000 == 0) compare_masks(&one, at, "a...");
    }
    compare_masks(&one, at, "a...");
    at = matcher_push(one.matcher, matcher_begin(one.matcher), BYTES_LITERAL("\"a"));
    compare_masks(&one, at, "\"a");
}

TEST(a_number_ends_where_something_else_may_come) {
    struct matcher_case one;
    case_open(&one, "{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"maximum\":12}}");
    struct grammar_position at = matcher_begin(one.matcher);
    at = matcher_push(one.matcher, at, BYTES_LITERAL("["));
    compare_masks(&one, at, "[");
    at = matcher_push(one.matcher, at, BYTES_LITERAL("1"));
    compare_masks(&one, at, "[1");
}
