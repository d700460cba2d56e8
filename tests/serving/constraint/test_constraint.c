/* SPDX-License-Identifier: Apache-2.0
 * Protects what a constraint's text may say: its tokens are found, what is wrong is refused with a
 * line that names it, and what was compiled needs neither the text nor the scratch memory.
 */
#include "constraint_cases.h"

TEST(its_tokens_are_found) {
    const struct constraint *plain = case_compile("{\"form\":{\"schema\":{}}}");
    assert_true(plain->opens == TOKEN_NONE && plain->behind == TOKEN_NONE);
    assert_true(plain->at == TOKEN_NONE && plain->form);
    const struct constraint *all =
        case_compile(" {\"at\" : \"<｜tool▁calls▁begin｜>\", \"opens\":\"<think>\",\"behind\":"
                     "\"</think>\",\"form\":{\"schema\":{}}}");
    assert_int_equal(all->opens, case_token("<think>"));
    assert_int_equal(all->behind, case_token("</think>"));
    assert_int_equal(all->at, case_token("<｜tool▁calls▁begin｜>"));
}

TEST(what_is_wrong_is_named) {
    static const struct {
        const char *text, *word;
        enum status status;
    } cases[] = {
        {"{\"form\":", "JSON", STATUS_INVALID},
        {"[1]", "an object", STATUS_INVALID},
        {"{}", "\"form\" is missing", STATUS_INVALID},
        {"{\"form\":{\"schema\":{}},\"until\":1}", "until", STATUS_INVALID},
        {"{\"form\":{\"schema\":{}},\"opens\":\"<think>\"}", "\"behind\"", STATUS_INVALID},
        {"{\"form\":{\"schema\":{}},\"behind\":7}", "\"behind\"", STATUS_INVALID},
        {"{\"form\":{\"schema\":{}},\"behind\":\"<nothing>\"}", "<nothing>", STATUS_UNSUPPORTED},
        {"{\"form\":{\"schema\":{}},\"at\":\"the\"}", "the", STATUS_UNSUPPORTED}, /* not added */
        {"{\"form\":{\"schema\":{\"type\":\"wrong\"}}}", "type", STATUS_INVALID},
        {"{\"form\":{\"schema\":{\"format\":\"idn-hostname\"}}}", "format", STATUS_UNSUPPORTED},
        {"{\"form\":{\"schema\":{\"enum\":[]}}}", "no value", STATUS_INVALID},
        {"{\"form\":{}}", "form", STATUS_INVALID},
        {"{\"form\":7}", "form", STATUS_INVALID},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const struct constraint *constraint = NULL;
        struct error error = {""};
        enum status status = constraint_compile(&case_arena, &case_scratch, bytes_of(cases[i].text),
                                                case_tokenizer, &constraint, &error);
        if (status != cases[i].status || !strstr(error.text, cases[i].word))
            fail_msg("%s: %s, '%s'", cases[i].text, status_name(status), error.text);
        assert_null(constraint);
        assert_null(strchr(error.text, '\n'));
    }
}

TEST(without_a_tokenizer_there_are_no_tokens) {
    const struct constraint *constraint;
    struct error error;
    assert_int_equal(
        constraint_compile(&case_arena, &case_scratch,
                           bytes_of("{\"form\":{\"schema\":{}},\"behind\":\"</think>\"}"), NULL,
                           &constraint, &error),
        STATUS_UNSUPPORTED);
}

TEST(what_was_compiled_stands_alone) {
    static const char constant[] = "{\"form\":{\"schema\":{\"const\":\"stays\"}}}";
    char text[sizeof constant];
    const struct constraint *constraint;
    struct error error;
    memcpy(text, constant, sizeof text);
    const char *before = case_scratch.at;
    assert_false(constraint_compile(&case_arena, &case_scratch, bytes_of(text), case_tokenizer,
                                    &constraint, &error));
    assert_ptr_equal(case_scratch.at, before);
    memset(text, 'x', sizeof text);
    memset(case_scratch.at, 0xA5, (size_t)1 << 20);
    struct matcher *matcher = case_matcher(constraint);
    struct grammar_position at =
        matcher_push(matcher, matcher_begin(matcher), BYTES_LITERAL("\"stays\""));
    assert_true(matcher_must_end(matcher, at));
    assert_int_equal(
        matcher_push(matcher, matcher_begin(matcher), BYTES_LITERAL("\"stay\"")).number, 0);
}

TEST(too_little_memory_is_reported) {
    static _Alignas(16) char memory[1 << 14];
    for (size_t bytes = 0; bytes < sizeof memory / 4; bytes += 64) {
        struct arena arena;
        const struct constraint *constraint;
        struct error error = {""};
        arena_over(&arena, memory, bytes);
        enum status status = constraint_compile(
            &arena, &case_scratch, bytes_of("{\"form\":{\"schema\":{\"type\":\"object\"}}}"),
            case_tokenizer, &constraint, &error);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        if (bytes == 0) assert_int_equal(status, STATUS_NO_MEMORY);
        arena_over(&arena, memory, bytes);
        struct arena large = case_arena;
        status = constraint_compile(&large, &arena,
                                    bytes_of("{\"form\":{\"schema\":{\"type\":\"object\"}}}"),
                                    case_tokenizer, &constraint, &error);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
    }
}

TEST_GROUP(case_open, NULL)
