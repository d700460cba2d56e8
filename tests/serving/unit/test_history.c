/* SPDX-License-Identifier: Apache-2.0
 * Protects the window that penalties look at: the last tokens in order, the prompt's part counted
 * right while it falls out, never more than the limit.
 */
#include "serving/unit/history.h"

#include "test_case.h"

enum { LONG = LIMIT_HISTORY_TOKENS + 100 };
static uint32_t prompt[LONG];
static _Alignas(16) char memory[4 * LONG + 64];

static struct history open(uint32_t prompt_count, uint32_t new_tokens_max) {
    struct history history = {0};
    struct arena arena;
    arena_over(&arena, memory, sizeof memory);
    for (uint32_t i = 0; i < LONG; i++)
        prompt[i] = i;
    assert_true(history_open(&history, &arena, prompt, prompt_count, 0, new_tokens_max));
    return history;
}

TEST(it_holds_everything_of_short_sequences) {
    struct history history = open(5, 3);
    assert_int_equal(history.capacity, 8);
    for (uint32_t i = 0; i < 3; i++)
        history_add(&history, 100 + i);
    assert_int_equal(history.count, 8);
    assert_int_equal(history.prompt_count, 5);
    assert_memory_equal(history.tokens, prompt, 5 * sizeof *prompt);
    assert_int_equal(history.tokens[7], 102);
}

TEST(the_oldest_tokens_fall_out) {
    struct history history = open(LONG, 1000);
    assert_int_equal(history.count, LIMIT_HISTORY_TOKENS);
    assert_int_equal(history.prompt_count, LIMIT_HISTORY_TOKENS);
    assert_int_equal(history.tokens[0], 100);
    for (uint32_t i = 0; i < 7; i++)
        history_add(&history, 5);
    assert_int_equal(history.count, LIMIT_HISTORY_TOKENS);
    assert_int_equal(history.prompt_count, LIMIT_HISTORY_TOKENS - 7);
    assert_int_equal(history.tokens[0], 107);
    assert_int_equal(history.tokens[LIMIT_HISTORY_TOKENS - 8], LONG - 1);
    assert_int_equal(history.tokens[LIMIT_HISTORY_TOKENS - 1], 5);
}

/* An answer that goes on elsewhere: as if all its tokens had been added one by one. */
TEST(it_begins_in_the_middle_of_an_answer) {
    static const uint32_t counts[][2] = {
        {5, 3}, {1, 40}, {LONG - 50, 50}, {50, LONG - 50}, {LIMIT_HISTORY_TOKENS, 9}};
    static uint32_t expected[LIMIT_HISTORY_TOKENS];
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct arena arena;
        struct history history = open(counts[i][0], 20000), later = {0};
        for (uint32_t token = 0; token < counts[i][1]; token++)
            history_add(&history, counts[i][0] + token);
        memcpy(expected, history.tokens, history.count * sizeof *expected);
        arena_over(&arena, memory, sizeof memory);
        assert_true(history_open(&later, &arena, prompt, counts[i][0], counts[i][1], 20000));
        assert_int_equal(later.count, history.count);
        assert_int_equal(later.prompt_count, history.prompt_count);
        assert_int_equal(later.capacity, history.capacity);
        assert_memory_equal(later.tokens, expected, later.count * sizeof *expected);
    }
}

TEST(unopened_and_hungry_ones_do_no_harm) {
    struct history history = {0};
    struct arena arena;
    history_add(&history, 5);
    assert_int_equal(history.count, 0);
    arena_over(&arena, memory, 16);
    assert_false(history_open(&history, &arena, prompt, 100, 0, 100));
    assert_int_equal(history.capacity, 0);
}
