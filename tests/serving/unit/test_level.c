/* SPDX-License-Identifier: Apache-2.0
 * Protects what levelled steps do to one rank: what its next step would cost is what it then costs;
 * bound, it takes as many tokens of its prompts as fit, in turn and in whole blocks, but never
 * fewer than the shortest chunk worth its context; a bound lasts until it is taken off, and
 * whatever the bounds are, every request ends with the answer it would have had.
 */

#include "base/random.h"
#include "serving/unit/level.h"
#include "serving/unit/state.h"
#include "test_case.h"
#include "world.h"

/* 1 us a token; attending to 64 positions takes as long; a position read back takes 0.1 us. */
static const struct step_cost cost = {.weights = {[STEP_COST_FIXED] = 5000,
                                                  [STEP_COST_ROWS] = 16 * 2000,
                                                  [STEP_COST_TOKENS] = 64 * 1000,
                                                  [STEP_COST_ATTENDED] = 1000.0 / 64 * 64 * 1024,
                                                  [STEP_COST_CONTEXT] = 100.0 * 1024}};
enum { CHUNK_MIN = 64 }; /* 2 * 100 ns / (1000 / 64 ns) = 12.8 tokens */

/* Of a unit with room for all, that does not mind how long its answers wait. */
static struct unit_options roomy(void) {
    struct unit_options options = world_options();
    options.page_count = 60;
    options.tpot_target_ns = 1000000000000;
    return options;
}

static void step(struct world *world) {
    world_drain(world);
    world_step(world);
    world_drain(world);
    assert_non_null(world->plan);
}

/* Of the step in flight: its cost, and how many tokens are no answer's. */
static double plan_cost(const struct world *world, uint32_t *prompt_tokens_out) {
    struct step_work work = {0};
    for (uint32_t i = 0; i < world->plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(world->plan)[i];
        if (row->output_position > 0)
            work.answer_rows++;
        else
            step_cost_work_add(&work, row->first_position, row->token_count);
    }
    *prompt_tokens_out = work.prompt_tokens;
    return step_cost_ns(&cost, &work);
}

TEST(a_bound_step_costs_no_more) {
    uint32_t bound_steps = 0, least_steps = 0;
    for (uint32_t life = 0; life < 60; life++) {
        struct unit_options options = roomy();
        struct world *world = world_open(&options);
        world->stop_odds = 0;
        for (uint32_t i = 0; i < 5; i++)
            world_submit(world, 1 + (uint32_t)(random_uniform(life, 0, i) * 400), 4);
        for (uint32_t turn = 0; unit_request_count(world->unit) > 0; turn++) {
            struct level_view view = level_look(world->unit, &cost);
            double share = random_uniform(life, 1, turn), ns = view.full_ns * share;
            uint32_t tokens;
            assert_true(view.full_ns >= view.answers_ns && view.least_ns >= 2 * view.answers_ns);
            bool bound = turn % 3 > 0;
            world->unit->level_cost = bound ? &cost : NULL;
            world->unit->level_ns = ns;
            step(world);
            double costs = plan_cost(world, &tokens);
            assert_true(costs <= view.full_ns * 1.000001);
            if (bound) assert_true(costs <= ns * 1.000001 || tokens <= CHUNK_MIN);
            if (view.full_ns > view.answers_ns) {
                assert_true(tokens > 0); /* it goes on */
                bound_steps += bound && costs <= ns * 1.000001 && tokens > CHUNK_MIN;
                least_steps += bound && costs > ns;
            }
            world_complete(world, false);
            world_drain(world);
        }
        world_assert_empty(world);
        world_close(world);
    }
    assert_true(bound_steps > 50 && least_steps > 20);
}

/* What it would take is what it takes when nothing is cached and all can start. */
TEST(the_full_step_is_foretold) {
    for (uint32_t count = 1; count < 4; count++) {
        struct unit_options options = roomy();
        options.step_tokens_max = 500;
        struct world *world = world_open(&options);
        uint32_t tokens;
        world->stop_odds = 0;
        for (uint32_t i = 0; i < count; i++)
            world_submit(world, 90 + 100 * i, 4);
        for (uint32_t turn = 0; turn < 4; turn++) {
            struct level_view view = level_look(world->unit, &cost);
            step(world);
            double costs = plan_cost(world, &tokens);
            assert_true(costs < view.full_ns * 1.000001 && costs > view.full_ns * 0.999999);
            world_complete(world, false);
            world_drain(world);
        }
        world_run(world);
        world_assert_empty(world);
        world_close(world);
    }
}
