/* SPDX-License-Identifier: Apache-2.0
 * Protects constrained answers in the unit: who begins anew brings the constraint and the answer so
 * far, forced tokens join the answer and are computed with its next row, and texts stay within the
 * plan and the prompts' memory. The world checks on the way that every fresh row brings the right
 * text and tokens, and that every other finds them at the engine.
 */

#include "base/check.h"
#include "serving/policy/speculate.h"
#include "test_case.h"
#include "world.h"

static struct world *open_binding(const struct unit_options *options) {
    struct world *world = world_open(options);
    world->constraint_bytes = 100;
    world->stop_odds = 0;
    return world;
}

/* One step whole. */
static void turn(struct world *world) {
    world_step(world);
    world_drain(world);
    assert_non_null(world->plan);
    world_complete(world, false);
    world_drain(world);
}

/* The first token comes from the prompt; then each row brings one and those that it forces. */
TEST(forced_tokens_save_steps) {
    enum { EACH = 1 + LIMIT_FORCED };
    static const struct {
        uint32_t answer, steps;
    } cases[] = {{1, 1}, {EACH, 1}, {EACH + 1, 2}, {10 * EACH, 10}, {30 * EACH - 1, 30}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct unit_options options = world_options();
        struct world *world = open_binding(&options);
        world->forced_odds = 1;
        world_submit(world, 60, cases[i].answer);
        world_run(world);
        assert_int_equal(world->known[0].received, cases[i].answer);
        assert_int_equal(world->known[0].reason, FINISH_LENGTH);
        assert_int_equal(world->load.totals.steps, cases[i].steps);
        assert_int_equal(world->known[0].work.recomputed_tokens, 0);
        world_assert_empty(world);
        world_close(world);
    }
}

/* With and without forced tokens, with and without drafts: the same answer, and drafts are told
 * from forced tokens. */
TEST(forced_tokens_change_no_answer) {
    uint32_t answer[TOKENS_MAX];
    for (uint32_t way = 0; way < 4; way++) {
        struct unit_options options = world_options();
        options.speculate = way & 1 ? SPECULATE_ALWAYS : SPECULATE_NEVER;
        struct world *world = open_binding(&options);
        world->forced_odds = way & 2 ? 0.4 : 0;
        world_submit(world, 100, 500);
        world_run(world);
        const struct known *known = &world->known[0];
        assert_int_equal(known->received, 500);
        if (way == 0) memcpy(answer, known->tokens, sizeof answer);
        assert_memory_equal(answer, known->tokens, 600 * sizeof *answer);
        assert_int_equal(known->forced > 0, way >> 1);
        assert_int_equal(world->load.totals.drafts_right, known->right);
        assert_int_equal(known->right > 0, way & 1);
        world_assert_empty(world);
        world_close(world);
    }
}

/* No token is drafted behind one that is not computed yet: the engine drafts from the last hidden
 * state. */
TEST(no_draft_is_made_while_forced_tokens_are_to_be_computed) {
    struct unit_options options = world_options();
    options.speculate = SPECULATE_ALWAYS;
    struct world *world = open_binding(&options);
    world_submit(world, 10, 40);
    bool forced = true;
    for (uint32_t i = 0; unit_request_count(world->unit) > 0 || i == 0; i++) {
        world->forced_odds = forced = !forced;
        world_step(world);
        world_drain(world);
        const struct step_row *row = step_plan_rows(world->plan);
        if (row->token_count > 1) assert_int_equal(row->draft_count, 0);
        if (i > 0 && row->token_count > 1) assert_true(row->form == TOKEN_GENERATED && row->sample);
        world_complete(world, false);
        world_drain(world);
    }
    assert_true(world->known[0].drafted > 0 && world->known[0].forced > 0);
    world_assert_empty(world);
    world_close(world);
}

/* The engine forces on behind an end token, and behind the last token that is wanted. */
TEST(nothing_follows_the_end_of_an_answer) {
    struct unit_options options = world_options();
    struct world *world = open_binding(&options);
    uint32_t cut = 0, stops = 0;
    world->stop_odds = 0.1;
    world->forced_odds = 0.9;
    for (uint32_t i = 0; i < 100; i++) {
        world_submit(world, 10, 1 + i % 20);
        world_run(world);
        const struct known *known = &world->known[i];
        cut += known->rows + known->forced > known->received;
        stops += known->reason == FINISH_STOP_TOKEN;
        for (uint32_t t = 0; t + 1 < known->received; t++)
            assert_int_not_equal(known->tokens[known->prompt_count + t], STOP_TOKEN);
    }
    assert_true(cut > 30 && stops > 20 && stops < 80);
    world_assert_empty(world);
    world_close(world);
}

/* A few rows whose forced tokens do not fit into the step together: each computes some, none is
 * left out, and prompts keep a block. */
TEST(forced_tokens_leave_room_for_others) {
    struct unit_options options = world_options();
    options.step_tokens_max = 6 + KV_BLOCK_TOKENS + 8;
    options.page_count = 60;
    struct world *world = open_binding(&options);
    world->forced_odds = 1;
    for (uint32_t i = 0; i < 5; i++)
        world_submit(world, 5, 200);
    while (!world->known[4].received)
        turn(world);
    uint32_t prompt = world_submit(world, 3 * KV_BLOCK_TOKENS, 2), parts = 0;
    for (uint32_t i = 0; i < 10; i++) {
        uint32_t answers = 0;
        world_step(world);
        world_drain(world);
        for (uint32_t r = 0; r < world->plan->row_count; r++) {
            const struct step_row *row = &step_plan_rows(world->plan)[r];
            answers += row->sampling.seed != prompt;
            parts += row->sampling.seed != prompt && !row->sample;
        }
        assert_int_equal(answers, 5);
        assert_true(world->plan->token_count <= options.step_tokens_max);
        world_complete(world, false);
        world_drain(world);
    }
    assert_true(parts > 0 && world->known[prompt].received > 0);
    world_run(world);
    world_assert_empty(world);
    world_close(world);
}

TEST(one_that_is_late_can_be_cancelled) {
    struct unit_options options = world_options();
    struct world *world = open_binding(&options);
    world->late_odds = 1;
    uint32_t number = world_submit(world, 70, 3);
    turn(world);
    world_step(world);
    world_drain(world);
    world_cancel(world, number);
    world_complete(world, false);
    world_drain(world);
    assert_int_equal(world->known[number].reason, FINISH_CANCELLED);
    world_assert_empty(world);
    world_close(world);
}

/* The scores of its prompt are told once, with the row that is not late. */
TEST(scores_of_a_late_row_are_reported_once) {
    struct unit_options options = world_options();
    struct world *world = open_binding(&options);
    uint32_t tokens[70] = {3};
    struct record_submit head = {.prompt_count = 70,
                                 .new_tokens_max = 3,
                                 .sampling.flags = SAMPLING_LOGPROBS | SAMPLING_SCORES};
    uint32_t number = world_submit_head(world, &head, tokens);
    world->late_odds = 1;
    turn(world);
    turn(world);
    assert_int_equal(world->known[number].scored, 1);
    world->late_odds = 0;
    world_run(world);
    assert_int_equal(world->known[number].scored, 70);
    assert_int_equal(world->known[number].received, 3);
    world_assert_empty(world);
    world_close(world);
}

/* Where nothing can follow, the answer ends as one that got too long, at once or later. */
TEST(a_stuck_answer_ends) {
    struct unit_options options = world_options();
    struct world *world = open_binding(&options);
    for (uint32_t steps = 0; steps < 3; steps++) {
        uint32_t number = world_submit(world, 70, 9);
        world->stuck_odds = 0;
        for (uint32_t i = 0; i < steps; i++)
            turn(world);
        world->stuck_odds = 1;
        turn(world);
        const struct known *known = &world->known[number];
        assert_int_equal(known->endings, 1);
        assert_int_equal(known->reason, FINISH_LENGTH);
        assert_int_equal(known->received, steps);
        assert_int_equal(known->work.computed_tokens, 70);
    }
    world_assert_empty(world);
    world_close(world);
}

/* An answer that is interrupted comes back with all of it, as one that goes on here from elsewhere
 * does; few pages, so that it happens. */
TEST(who_comes_back_brings_the_answer_so_far) {
    struct unit_options options = world_options();
    options.page_count = 9;
    options.speculate = SPECULATE_ALWAYS;
    struct world *world = open_binding(&options);
    static const struct sampling plain = {.top_p = 1};
    uint32_t tokens[150];
    for (uint32_t i = 0; i < 150; i++)
        tokens[i] = i;
    world->forced_odds = 0.3;
    world_submit_resumed(world, &plain, tokens, 100, 50, 200);
    for (uint32_t i = 0; i < 5; i++)
        world_submit(world, 100, 200);
    world_run(world);
    assert_true(world->load.totals.preemptions > 0);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(world->known[i].received, 200);
    world_assert_empty(world);
    world_close(world);
}

/* The plan has room for one text of the longest: the others start one by one, in turn, and nobody
 * passes them. */
TEST(constraints_that_fill_the_plan_start_in_turn) {
    struct unit_options options = world_options();
    options.prompt_bytes = 8 * (size_t)LIMIT_CONSTRAINT_BYTES;
    struct world *world = open_binding(&options);
    for (uint32_t i = 0; i < 4; i++) { /* as many as may start in one step */
        world->constraint_bytes = i == 3 ? 10 : LIMIT_CONSTRAINT_BYTES - 5 * (i == 0);
        world_submit(world, 10, 20);
    }
    for (uint32_t i = 0; i < 4; i++) {
        while (!world->known[i].received) {
            world_step(world);
            world_drain(world);
            assert_true(world->plan->constraint_count <= 1);
            world_complete(world, false);
            world_drain(world);
            if (i < 3) assert_int_equal(world->known[i + 1].received, 0);
        }
    }
    world_run(world);
    world_assert_empty(world);
    world_close(world);
}

/* So are the answers so far that fresh rows bring: as many tokens as one context has. */
TEST(long_answers_begin_anew_in_turn) {
    struct unit_options options = world_options();
    options.context_tokens_max = 400;
    struct world *world = open_binding(&options);
    static const struct sampling plain = {.top_p = 1};
    uint32_t tokens[400] = {1};
    for (uint32_t i = 0; i < 3; i++) {
        tokens[0] = i + 1;
        world_submit_resumed(world, &plain, tokens, 1, 250 + i, 399);
    }
    world_step(world);
    world_drain(world);
    assert_int_equal(world->plan->constraint_count, 1);
    assert_true(world->plan->token_count < options.step_tokens_max);
    world_run(world);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(world->known[i].received, 399);
    world_assert_empty(world);
    world_close(world);
}

/* A text that the prompts' memory cannot hold now is refused as by a full queue; later it can. */
TEST(memory_for_texts_is_bounded_and_comes_back) {
    struct unit_options options = world_options();
    options.prompt_bytes = 2 * LIMIT_CONSTRAINT_BYTES;
    struct world *world = open_binding(&options);
    world->constraint_bytes = LIMIT_CONSTRAINT_BYTES;
    for (uint32_t round = 0; round < 3; round++) {
        uint32_t first = world_submit(world, 10, 5), second = world_submit(world, 10, 5);
        world_run(world);
        assert_int_equal(world->known[first].reason, FINISH_LENGTH);
        assert_int_equal(world->known[second].reason, FINISH_REFUSED_QUEUE);
    }
    world_assert_empty(world);
    world_close(world);
}

/* Without a word on the prompts' memory there is room for the longest text, and for an ordinary one
 * of each request. */
TEST(the_memory_that_is_taken_by_default_suffices) {
    struct unit_options options = world_options();
    struct world *world = open_binding(&options);
    world->constraint_bytes = LIMIT_CONSTRAINT_BYTES;
    world_submit(world, 900, 100);
    world->constraint_bytes = 4096;
    for (uint32_t i = 1; i < options.requests_max; i++)
        world_submit(world, 900, 100);
    world_run(world);
    for (uint32_t i = 0; i < options.requests_max; i++)
        assert_int_equal(world->known[i].reason, FINISH_LENGTH);
    world_assert_empty(world);
    world_close(world);
}
