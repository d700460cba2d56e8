/* SPDX-License-Identifier: Apache-2.0
 * Protects answers that are drafted ahead, in the unit: two tokens from one step, an end between
 * them, and where no draft may be.
 */

#include "base/check.h"
#include "serving/policy/speculate.h"
#include "test_case.h"
#include "world.h"

static struct unit_options drafting_options(void) {
    struct unit_options options = world_options();
    options.speculate = SPECULATE_ALWAYS;
    return options;
}

/* With every draft right an answer takes half the steps, one more where a draft would end a block,
 * and its last token needs no draft; with every draft wrong it takes a step for each token. */
TEST(drafts_save_steps_when_they_are_right) {
    static const struct {
        double right;
        uint32_t prompt, answer, steps, pairs;
    } cases[] = {
        {1, 10, 1, 1, 0},    {1, 10, 2, 2, 0},    {1, 10, 3, 2, 1},
        {1, 10, 4, 3, 1},    {1, 10, 41, 21, 20}, {1, 10, 52, 27, 25},
        {1, 10, 55, 29, 26}, {1, 11, 55, 28, 27}, {0, 10, 55, 55, 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct unit_options options = drafting_options();
        struct world *world = world_open(&options);
        world->stop_odds = 0;
        world->made_odds = 1;
        world->right_odds = cases[i].right;
        world_submit(world, cases[i].prompt, cases[i].answer);
        world_run(world);
        assert_int_equal(world->known[0].received, cases[i].answer);
        assert_int_equal(world->load.totals.steps, cases[i].steps);
        assert_int_equal(world->known[0].pairs, cases[i].pairs);
        assert_int_equal(world->load.totals.drafts, world->known[0].drafted);
        world_assert_empty(world);
        world_close(world);
    }
}

/* A stop token ends the answer, though the engine chose another behind it. */
TEST(nothing_follows_a_stop_token) {
    struct unit_options options = drafting_options();
    struct world *world = world_open(&options);
    uint32_t cut = 0;
    world->stop_odds = 0.2;
    world->right_odds = 1;
    for (uint32_t i = 0; i < 200; i++) {
        world_submit(world, 10, 50);
        world_run(world);
        const struct known *known = &world->known[i];
        /* one from the prompt, two from each right draft, one from each other row */
        uint32_t chosen = 1 + 2 * known->right + (known->rows - 1 - known->right);
        cut += chosen - known->received;
    }
    assert_true(cut > 10);
    world_assert_empty(world);
    world_close(world);
}

/* The second of two tokens may not be chosen from what only the first had to keep off. */
TEST(no_draft_where_stop_tokens_become_free) {
    struct unit_options options = drafting_options();
    struct world *world = world_open(&options);
    world->stop_odds = 0;
    world->made_odds = 1;
    world->right_odds = 0;
    enum { PROMPT = 5, MIN = 6, ANSWER = 12 };
    struct record_submit *record = world_make(
        RECORD_SUBMIT, &(struct record_submit){.prompt_count = PROMPT, .stop_token_count = 1});
    record->sampling.min_tokens = MIN;
    record->new_tokens_max = ANSWER;
    *submit_stop_tokens(record) = STOP_TOKEN;
    world->submitted = 1;
    world->known[0] = (struct known){.prompt_count = PROMPT, .new_tokens_max = ANSWER};
    for (uint32_t i = 0; i < PROMPT; i++)
        world->known[0].chain = world_chain(world->known[0].chain, 0, TOKEN_PROMPT);
    world_send(world, record);
    for (uint32_t turn = 0; turn < ANSWER; turn++) {
        world_step(world);
        world_drain(world);
        const struct step_row *row = step_plan_rows(world->plan);
        assert_int_equal(row->output_position, turn);
        assert_int_equal(row->bias_count, turn < MIN);
        assert_int_equal(row->draft_count, turn > 0 && turn != MIN - 1 && turn != ANSWER - 1);
        world_complete(world, false);
        world_drain(world);
    }
    world_assert_empty(world);
    world_close(world);
}

/* Two answers grow in step, and one page is left when both drafts would begin a block: one gets it,
 * the other goes without, and nobody is interrupted until a known token needs a page. */
TEST(no_draft_takes_a_page_from_others) {
    struct unit_options options = drafting_options();
    options.page_count = 5;
    struct world *world = world_open(&options);
    world->stop_odds = 0;
    world->right_odds = 0;
    world->made_odds = 1;
    world_submit(world, 62, 80);
    world_submit(world, 62, 80);
    const struct step_row *rows = NULL;
    for (;;) {
        world_step(world);
        world_drain(world);
        rows = step_plan_rows(world->plan);
        if (rows->first_position == 2 * KV_BLOCK_TOKENS - 1) break;
        world_complete(world, false);
        world_drain(world);
    }
    assert_int_equal(world->plan->row_count, 2);
    assert_int_equal(rows[0].first_position, rows[1].first_position);
    assert_int_equal(rows[0].draft_count + rows[1].draft_count, 1);
    assert_int_equal(world->load.totals.preemptions, 0);
    world_run(world);
    assert_true(world->load.totals.preemptions > 0);
    world_assert_empty(world);
    world_close(world);
}

/* Too few tokens in a step for all drafts and a prompt's block: none. */
TEST(drafts_leave_room_for_a_prompt) {
    struct unit_options options = drafting_options();
    options.step_rows_max = 6;
    options.step_tokens_max = 75; /* six rows, five drafts */
    struct world *world = world_open(&options);
    for (uint32_t i = 0; i < 6; i++)
        world_submit(world, 5, 20);
    bool none = false;
    for (uint32_t turn = 0; turn < 200 && unit_request_count(world->unit); turn++) {
        world_step(world);
        world_drain(world);
        if (!world->plan) break;
        const struct step_row *rows = step_plan_rows(world->plan);
        uint32_t tokens = world->plan->token_count, drafts = 0, answers = 0;
        for (uint32_t i = 0; i < world->plan->row_count; i++) {
            drafts += rows[i].draft_count;
            answers += rows[i].form == TOKEN_GENERATED;
        }
        assert_true(tokens + drafts <= options.step_tokens_max);
        if (answers + drafts) assert_true(answers + drafts + KV_BLOCK_TOKENS <= 75);
        none = none || (answers == 6 && !drafts);
        world_complete(world, false);
        world_drain(world);
    }
    world_run(world);
    assert_true(none);
    world_assert_empty(world);
    world_close(world);
}
