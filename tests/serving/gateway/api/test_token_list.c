/* SPDX-License-Identifier: Apache-2.0
 * Protects the tokens of answers: they come out as they went in, however many there are, with what
 * is known of each; and those of which nothing is known take little more than four bytes.
 */
#include "serving/gateway/api/token_list.h"

#include "test_case.h"

enum { TOKENS = 12000, EACH_MAX = 3 };

static char memory[1 << 20];

struct seen {
    uint32_t next, count, each;
};

static void see(void *context, uint32_t index, const struct token_logprob *entries) {
    struct seen *seen = context;
    assert_int_equal(index, seen->next++);
    seen->count++;
    for (uint32_t i = 0; i < (seen->each ? seen->each : 1); i++)
        assert_int_equal(entries[i].token, index * 10 + i);
    assert_true(entries[0].logprob == (seen->each ? -1.5f : 0.0f));
}

TEST(tokens_come_out_as_they_went_in) {
    for (uint32_t each = 0; each <= EACH_MAX; each++) {
        struct arena arena;
        struct token_list list = {0};
        arena_over(&arena, memory, sizeof memory);
        for (uint32_t i = 0; i < TOKENS; i++) {
            const struct token_logprob entries[EACH_MAX] = {
                {i * 10, -1.5f}, {i * 10 + 1, -2}, {i * 10 + 2, -3}};
            assert_true(token_list_add(&list, &arena, entries, each));
        }
        assert_int_equal(list.count, TOKENS);
        struct seen all = {.each = each}, some = {.next = 100, .each = each};
        token_list_visit(&list, 0, TOKENS, see, &all);
        token_list_visit(&list, 100, 5000, see, &some);
        assert_int_equal(all.count, TOKENS);
        assert_int_equal(some.count, 4900);
        if (each == 0) assert_true(arena.at - memory < TOKENS * 4 * 5 / 4 + 1024);
    }
}

TEST(the_last_tokens_are_there_at_once) {
    struct arena arena;
    struct token_list list = {0};
    arena_over(&arena, memory, sizeof memory);
    for (uint32_t i = 0; i < 400; i++) {
        const struct token_logprob entry = {i * 10, -1};
        assert_true(token_list_add(&list, &arena, &entry, 0));
        struct seen all = {0}, last = {.next = i};
        token_list_visit(&list, 0, i + 1, see, &all);
        token_list_visit(&list, i, i + 1, see, &last);
        assert_int_equal(all.count, i + 1);
        assert_int_equal(last.count, 1);
    }
}

TEST(memory_that_ends_is_said) {
    struct arena arena;
    struct token_list list = {0};
    const struct token_logprob entry = {7, -1};
    arena_over(&arena, memory, 1024);
    while (token_list_add(&list, &arena, &entry, 1))
        assert_true(list.count <= 1024 / sizeof entry);
    assert_true(list.count > 0);
}
