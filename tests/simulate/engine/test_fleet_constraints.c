/* SPDX-License-Identifier: Apache-2.0
 * Protects the constraints of simulated fleets: their answers end, and the judge, who knows no
 * grammar, finds each right, and others wrong; loans come back, and are waited for where they are
 * to be.
 */
#include "simulate/engine/fleet_constraints.h"

#include "base/random.h"
#include "simulate/engine/fleet_engine.h"
#include "simulate/engine/fleet_token_oracle.h"
#include "test_case.h"

enum { ANSWER_MAX = 200, SEEDS = 60 };

static void *memory;
static struct arena scratch;
static struct fleet_constraints *constraints;

static int open_memory(void **state) {
    static char work[1 << 16];
    struct arena arena;
    (void)state;
    memory = malloc(fleet_constraints_bytes());
    if (!memory) return 1;
    arena_over(&arena, memory, fleet_constraints_bytes());
    arena_over(&scratch, work, sizeof work);
    constraints = fleet_constraints_open(&arena);
    return constraints == NULL;
}

static int close_memory(void **state) {
    (void)state;
    free(memory);
    return 0;
}

/* Tokens of an answer, the stop token last if it ends. */
static uint32_t answer(uint32_t which, uint32_t seed, uint32_t *tokens) {
    const struct sampling sampling = {.top_p = 1, .seed = seed};
    const uint32_t prompt[] = {5, 6, 7};
    return fleet_engine_answer(0, prompt, 3, &sampling,
                               fleet_constraints_follow(constraints, which), ANSWER_MAX, tokens);
}

TEST(answers_end_and_are_found_right) {
    for (uint32_t which = 0; which < FLEET_CONSTRAINTS; which++) {
        uint32_t tokens[ANSWER_MAX], ended = 0, longest = 0;
        for (uint32_t seed = 0; seed < SEEDS; seed++) {
            uint32_t count = answer(which, seed, tokens);
            if (tokens[count - 1] != FLEET_STOP_TOKEN) continue;
            assert_true(fleet_constraints_fulfilled(which, tokens, count - 1, &scratch));
            longest = count > longest ? count : longest;
            ended++;
        }
        assert_true(ended > SEEDS / 2 && longest > 15);
    }
}

TEST(what_is_cut_or_changed_is_found_wrong) {
    for (uint32_t which = 0; which < FLEET_CONSTRAINTS; which++) {
        uint32_t tokens[ANSWER_MAX], wrong = 0, tried = 0;
        for (uint32_t seed = 0; seed < SEEDS; seed++) {
            uint32_t count = answer(which, seed, tokens) - 1;
            if (tokens[count] != FLEET_STOP_TOKEN) continue;
            assert_false(fleet_constraints_fulfilled(which, tokens, count + 1, &scratch));
            wrong += !fleet_constraints_fulfilled(which, tokens, count - 1, &scratch);
            tokens[(uint32_t)(random_uniform(seed, 0, which) * count)] =
                fleet_token_oracle_byte('\1');
            wrong += !fleet_constraints_fulfilled(which, tokens, count, &scratch);
            tried += 2;
        }
        assert_true(wrong > tried * 9 / 10); /* some are what was asked for, cut all the same */
    }
}

static struct bytes text_of(char *out, uint32_t which) {
    int bytes = snprintf(out, 1000, "{\"form\":{\"%s\":%s}}", which == 1 ? "choice" : "regex",
                         fleet_constraints_value(which));
    return (struct bytes){out, (size_t)bytes};
}

/* In the next life nobody has one. In some lives engines wait for them, in others they do not. */
TEST(loans_come_back_and_engines_may_wait_for_them) {
    struct constrained_lender lender = fleet_constraints_lender(constraints);
    uint32_t late = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const struct constraint *constraint;
        struct matcher *matcher;
        char text[1000];
        fleet_constraints_begin(constraints, seed);
        assert_int_equal(constraints->loan_count, 0);
        struct constrained_loan *first = lender.ask(lender.context, text_of(text, 0), 1);
        struct constrained_loan *second = lender.ask(lender.context, text_of(text, 1), 2);
        assert_ptr_not_equal(first, second);
        assert_true(lender.ready(lender.context, first, &constraint, &matcher));
        late += fleet_constraints_wait(constraints);
        assert_ptr_equal(constraint, constraints->compiled[0].constraint);
        assert_non_null(matcher);
        assert_int_equal(constraints->loan_count, 2);
        lender.give_back(lender.context, first);
        assert_int_equal(constraints->loan_count, 1);
    }
    assert_true(late > SEEDS / 10);
}

TEST_GROUP(open_memory, close_memory)
