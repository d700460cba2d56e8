/* SPDX-License-Identifier: Apache-2.0
 * Protects where an answer stands under its constraint: what is free is free, thinking must be
 * closed, the end comes where the form may end and nowhere else; and the place follows from the
 * tokens alone.
 */
#include "constraint_cases.h"

#include "serving/constraint/constrained_answer.h"

static const uint32_t stops[] = {CASE_STOP, 2};
static uint64_t mask[CASE_WORDS], expected[CASE_WORDS];

static struct constrained_answer answer_of(const char *text) {
    struct constrained_answer answer;
    const struct constraint *constraint = case_compile(text);
    constrained_answer_begin(&answer, constraint, case_matcher(constraint), stops,
                             ARRAY_COUNT(stops));
    return answer;
}

static int forget(void **state) {
    (void)state;
    arena_clear(&case_arena);
    return 0;
}

/* Tokens of single bytes. */
static void push_text(struct constrained_answer *answer, const char *text) {
    for (; *text; text++) {
        const char byte[2] = {*text, 0};
        constrained_answer_push(answer, case_token(byte));
    }
}

TEST_AROUND(the_form_binds_from_the_first_token_on, NULL, forget) {
    struct constrained_answer answer = answer_of("{\"form\":{\"schema\":{\"type\":\"integer\"}}}");
    uint32_t unused;
    assert_true(constrained_answer_mask(&answer, mask));
    matcher_mask_slowly(answer.matcher, matcher_begin(answer.matcher), expected);
    assert_memory_equal(mask, expected, sizeof mask);
    assert_false(case_holds(mask, stops[0]));
    push_text(&answer, "12");
    assert_true(constrained_answer_mask(&answer, mask));
    assert_true(case_holds(mask, stops[0]) && case_holds(mask, stops[1]));
    assert_true(case_holds(mask, case_token("3")) && !case_holds(mask, case_token("a")));
    assert_false(constrained_answer_forced(&answer, &unused));
    constrained_answer_push(&answer, stops[1]);
    assert_int_equal(answer.place, CONSTRAINED_ENDED);
}

TEST_AROUND(where_only_the_end_may_come_it_is_the_first_end_token, NULL, forget) {
    struct constrained_answer answer = answer_of("{\"form\":{\"schema\":{\"type\":\"null\"}}}");
    uint32_t token = 0;
    push_text(&answer, "null");
    assert_true(constrained_answer_mask(&answer, mask));
    assert_int_equal(case_count(mask), 1);
    assert_true(case_holds(mask, stops[0]));
    assert_true(constrained_answer_forced(&answer, &token));
    assert_int_equal(token, stops[0]);
    constrained_answer_push(&answer, token);
    assert_int_equal(answer.place, CONSTRAINED_ENDED);
    assert_true(constrained_answer_mask(&answer, mask));
    assert_int_equal(case_count(mask), 0);
    assert_false(constrained_answer_forced(&answer, &token));
}

TEST_AROUND(thinking_is_free_and_must_be_closed, NULL, forget) {
    struct constrained_answer answer =
        answer_of("{\"behind\":\"</think>\",\"form\":{\"schema\":{\"type\":\"null\"}}}");
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(constrained_answer_mask(&answer, mask));
        assert_int_equal(case_count(mask), CASE_ROWS - ARRAY_COUNT(stops));
        assert_false(case_holds(mask, stops[0]) || case_holds(mask, stops[1]));
        push_text(&answer, "}");
    }
    constrained_answer_push(&answer, case_token("</think>"));
    assert_int_equal(answer.place, CONSTRAINED_BOUND);
    assert_true(constrained_answer_mask(&answer, mask));
    assert_true(case_holds(mask, case_token("n")) && !case_holds(mask, case_token("}")));
    answer = answer_of("{\"behind\":\"</think>\",\"form\":{\"schema\":{\"type\":\"null\"}}}");
    constrained_answer_push(&answer, stops[0]);
    assert_int_equal(answer.place, CONSTRAINED_STUCK);
}

TEST_AROUND(thinking_may_be_left_out_where_it_is_not_sure, NULL, forget) {
    static const char text[] = "{\"opens\":\"<think>\",\"behind\":\"</think>\","
                               "\"form\":{\"schema\":{\"type\":\"null\"}}}";
    struct constrained_answer thinks = answer_of(text), answers = answer_of(text);
    uint32_t token;
    assert_true(constrained_answer_mask(&thinks, mask));
    assert_true(case_holds(mask, case_token("<think>")) && case_holds(mask, case_token("n")));
    assert_false(case_holds(mask, case_token("a")) || case_holds(mask, stops[0]));
    assert_false(constrained_answer_forced(&thinks, &token));
    constrained_answer_push(&thinks, case_token("<think>"));
    push_text(&thinks, "a");
    assert_true(constrained_answer_mask(&thinks, mask));
    assert_int_equal(case_count(mask), CASE_ROWS - ARRAY_COUNT(stops));
    constrained_answer_push(&thinks, case_token("</think>"));
    push_text(&thinks, "null");
    assert_true(constrained_answer_forced(&thinks, &token));
    push_text(&answers, "n");
    assert_true(constrained_answer_mask(&answers, mask)); /* later, it is a token like others */
    assert_false(case_holds(mask, case_token("<think>")));
    constrained_answer_push(&answers, case_token("<think>"));
    assert_int_equal(answers.place, CONSTRAINED_STUCK);
}

TEST_AROUND(an_answer_is_free_until_its_token_comes, NULL, forget) {
    static const char text[] = "{\"behind\":\"</think>\",\"at\":\"<｜tool▁calls▁begin｜>\","
                               "\"form\":{\"schema\":{\"type\":\"null\"}}}";
    struct constrained_answer answer = answer_of(text);
    constrained_answer_push(&answer, case_token("<｜tool▁calls▁begin｜>")); /* it thinks */
    assert_true(constrained_answer_mask(&answer, mask));
    constrained_answer_push(&answer, case_token("</think>"));
    assert_false(constrained_answer_mask(&answer, mask));
    push_text(&answer, "as it likes");
    assert_false(constrained_answer_mask(&answer, mask));
    constrained_answer_push(&answer, stops[1]);
    assert_int_equal(answer.place, CONSTRAINED_ENDED);
}

#define CALL                                                                                       \
    "{\"sequence\":[{\"token\":\"<｜tool▁calls▁begin｜>\"},{\"schema\":{\"type\":"           \
    "\"boolean\"}},{\"token\":\"<｜tool▁call▁end｜>\"},{\"token\":\"<｜tool▁calls▁end｜>\"}]}"

TEST_AROUND(the_form_begins_with_its_token, NULL, forget) {
    struct constrained_answer answer =
        answer_of("{\"at\":\"<｜tool▁calls▁begin｜>\",\"form\":" CALL "}");
    push_text(&answer, "free");
    constrained_answer_push(&answer, case_token("<｜tool▁calls▁begin｜>"));
    assert_int_equal(answer.place, CONSTRAINED_BOUND);
    assert_true(constrained_answer_mask(&answer, mask));
    assert_true(case_holds(mask, case_token("t")) && !case_holds(mask, case_token("z")));
    assert_false(case_holds(mask, stops[0]));
}

TEST_AROUND(tokens_that_must_come_are_forced, NULL, forget) {
    const uint32_t expected_tokens[] = {case_token("<｜tool▁call▁end｜>"),
                                        case_token("<｜tool▁calls▁end｜>"), stops[0]};
    uint32_t token;
    struct constrained_answer answer = answer_of("{\"form\":" CALL "}");
    assert_true(constrained_answer_forced(&answer, &token));
    assert_int_equal(token, case_token("<｜tool▁calls▁begin｜>"));
    constrained_answer_push(&answer, token);
    assert_false(constrained_answer_forced(&answer, &token));
    push_text(&answer, "true");
    for (size_t i = 0; i < ARRAY_COUNT(expected_tokens); i++) {
        assert_true(constrained_answer_mask(&answer, mask));
        assert_int_equal(case_count(mask), 1);
        assert_true(constrained_answer_forced(&answer, &token));
        assert_int_equal(token, expected_tokens[i]);
        constrained_answer_push(&answer, token);
    }
    assert_int_equal(answer.place, CONSTRAINED_ENDED);
}

TEST_AROUND(a_token_that_may_not_come_is_the_last, NULL, forget) {
    struct constrained_answer answer = answer_of("{\"form\":{\"schema\":{\"type\":\"null\"}}}");
    constrained_answer_push(&answer, stops[0]);
    assert_int_equal(answer.place, CONSTRAINED_STUCK);
    answer = answer_of("{\"form\":{\"schema\":{\"type\":\"null\"}}}");
    push_text(&answer, "nu");
    push_text(&answer, "x");
    assert_int_equal(answer.place, CONSTRAINED_STUCK);
    assert_true(constrained_answer_mask(&answer, mask));
    assert_int_equal(case_count(mask), 0);
    answer = answer_of("{\"form\":{\"schema\":{\"type\":\"null\"}}}");
    constrained_answer_push(&answer, UINT32_MAX);
    assert_int_equal(answer.place, CONSTRAINED_STUCK);
}

/* ---- at random ---- */

static uint64_t random_state = 3;

static uint32_t draw(uint32_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % below);
}

static uint32_t draw_of(const uint64_t *from) {
    uint32_t left = draw(case_count(from)), token = 0;
    for (;; token++)
        if (case_holds(from, token) && left-- == 0) return token;
}

/* One that ends soon. */
static uint32_t next_token(const uint64_t *from, uint32_t count) {
    if (count > 40 && case_holds(from, stops[0])) return stops[0];
    if (count > 40 && case_holds(from, case_token("</think>"))) return case_token("</think>");
    return draw_of(from);
}

static void follow_masks(const char *text) {
    struct constrained_answer answer = answer_of(text), again;
    uint32_t tokens[2000], count = 0, forced;
    while (answer.place < CONSTRAINED_ENDED) {
        assert_true(count < ARRAY_COUNT(tokens));
        assert_true(constrained_answer_mask(&answer, mask));
        assert_true(case_count(mask) > 0);
        if (constrained_answer_forced(&answer, &forced)) {
            assert_int_equal(case_count(mask), 1);
            assert_true(case_holds(mask, forced));
        }
        tokens[count] = next_token(mask, count);
        constrained_answer_push(&answer, tokens[count++]);
    }
    assert_int_equal(answer.place, CONSTRAINED_ENDED);
    again = answer;
    uint32_t cut = draw(count);
    constrained_answer_begin(&again, answer.constraint, answer.matcher, stops, ARRAY_COUNT(stops));
    for (uint32_t i = 0; i < count; i++) { /* all at once, without masks */
        if (i == cut) assert_true(again.place < CONSTRAINED_ENDED);
        constrained_answer_push(&again, tokens[i]);
    }
    assert_int_equal(again.place, CONSTRAINED_ENDED);
}

TEST(masks_lead_to_the_end) {
    static const char *const texts[] = {
        "{\"form\":{\"schema\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},"
        "\"b\":{\"type\":\"string\",\"maxLength\":9}},\"required\":[\"a\"],"
        "\"additionalProperties\":false}}}",
        "{\"behind\":\"</think>\",\"form\":{\"schema\":{\"enum\":[1,\"two\",[3]]}}}",
        "{\"form\":{\"schema\":{\"type\":\"array\",\"maxItems\":4,\"items\":{\"type\":"
        "\"boolean\"}}}}",
        "{\"opens\":\"<think>\",\"behind\":\"</think>\",\"form\":{\"schema\":{\"type\":\"string\","
        "\"pattern\":\"^[a-f]{2,8}$\"}}}",
        "{\"behind\":\"</think>\",\"form\":{\"repeat\":" CALL ",\"least\":1,\"most\":4}}",
        "{\"form\":{\"gbnf\":\"root ::= [a-c]+ (\\\"-\\\" [0-9]{2,4})? \\\"!\\\"\"}}",
        "{\"form\":{\"regex\":\"(ab|cd){1,6}x\"}}",
        "{\"form\":{\"choice\":[\"yes\",\"no\",\"perhaps\"]}}",
    };
    for (uint32_t trial = 0; trial < 120; trial++) {
        follow_masks(texts[trial % ARRAY_COUNT(texts)]);
        forget(NULL);
    }
}

TEST_GROUP(case_open, NULL)
