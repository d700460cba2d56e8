/* SPDX-License-Identifier: Apache-2.0
 * Protects the hints for mistyped names: a slip finds the name that was meant, and another word
 * finds none.
 */
#include "base/check.h"
#include "base/nearest.h"
#include "test_case.h"

static size_t edits(const char *a, const char *b) {
    size_t there = nearest_edits(bytes_of(a), bytes_of(b));
    assert_int_equal(there, nearest_edits(bytes_of(b), bytes_of(a)));
    return there;
}

TEST(edits_are_counted) {
    assert_int_equal(edits("", ""), 0);
    assert_int_equal(edits("serve", "serve"), 0);
    assert_int_equal(edits("", "unit"), 4);
    assert_int_equal(edits("serve", "serves"), 1);
    assert_int_equal(edits("serve", "sevre"), 2);
    assert_int_equal(edits("kitten", "sitting"), 3);
    assert_int_equal(edits("abc", "xyz"), 3);
}

static const char *find(const char *word) {
    static const char *const names[] = {"bench", "serve", "tokenize", "detokenize", "unit"};
    struct nearest nearest = nearest_begin(bytes_of(word));
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        nearest_try(&nearest, names[i]);
    return nearest.name;
}

TEST(a_slip_finds_the_name_that_was_meant) {
    assert_string_equal(find("sevre"), "serve");
    assert_string_equal(find("bnech"), "bench");
    assert_string_equal(find("tokenise"), "tokenize");
    assert_string_equal(find("detokenise"), "detokenize");
    assert_string_equal(find("unti"), "unit");
}

TEST(another_word_finds_none) {
    char word[5000];
    assert_null(find("frobnicate"));
    assert_null(find(""));
    assert_null(find("x"));
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    assert_null(find(word));
}

/* Two names may be equally near: then it does not depend on anything but their order. */
TEST(of_equally_near_names_the_first_counts) {
    struct nearest nearest = nearest_begin(BYTES_LITERAL("link-xs"));
    nearest_try(&nearest, "link-us");
    nearest_try(&nearest, "link-ms");
    assert_string_equal(nearest.name, "link-us");
}
