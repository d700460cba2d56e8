/* SPDX-License-Identifier: Apache-2.0
 * Protects `generate` in builds without serving: prompts in words and grammars are refused by what
 * would help, and the shape says which tokens end an answer.
 */
#include "programs/generate_text.h"

#include "test_case.h"

TEST(words_and_grammars_are_refused) {
    struct generate_text *text = NULL;
    const struct generate_text_values free = {.regex = NULL}, bound = {.regex = "a"};
    struct error error;
    assert_int_equal(generate_text_open(&free, "x", "words", &text, &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.text, "--tokens"));
    assert_int_equal(generate_text_open(&bound, "x", NULL, &text, &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.text, "--regex"));
    assert_null(text);
}

TEST(the_shape_ends_an_answer) {
    static struct shape shape = {.eos_token_count = 2, .eos_tokens = {7, 9}};
    struct answer_ends ends;
    struct error error;
    assert_int_equal(generate_text_begin(NULL, &shape, 1, &ends, &error), STATUS_OK);
    assert_int_equal(ends.count, 2);
    assert_int_equal(ends.tokens[1], 9);
}
