/* SPDX-License-Identifier: Apache-2.0
 * Protects everybody from constraints and masks that take long: a request computes nothing before
 * its rank has its constraint, a late mask delays nobody else, what a late row computed counts and
 * it never goes first twice, and a rank that died gets its constraints again.
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

/* The rows of requests in the plan, as bits. */
static uint32_t rows_of(const struct world *world) {
    uint32_t rows = 0;
    for (uint32_t r = 0; r < world->plan->row_count; r++)
        rows |= UINT32_C(1) << step_plan_rows(world->plan)[r].sampling.seed;
    return rows;
}

/* One step; returns whose rows it had. */
static uint32_t turn_rows(struct world *world) {
    world_step(world);
    world_drain(world);
    assert_non_null(world->plan);
    uint32_t rows = rows_of(world);
    world_complete(world, false);
    world_drain(world);
    return rows;
}

/* While its constraint is being compiled a request has no row and no page, and others go on, those
 * that came later, too. What it waited does not count as waited for its turn. */
TEST(nothing_is_computed_before_the_rank_has_the_constraint) {
    struct unit_options options = world_options();
    struct world *world = open_binding(&options);
    world->unready_odds = 1;
    uint32_t bound = world_submit(world, 150, 9);
    world->constraint_bytes = 0;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t free_one = world_submit(world, 70, 9);
        for (uint32_t step = 0; step < 9; step++)
            assert_int_equal(turn_rows(world), 1u << free_one);
        assert_int_equal(world->known[free_one].reason, FINISH_LENGTH);
        assert_int_equal(world->load.pages_held, 0);
    }
    assert_int_equal(world->load.totals.prompt_tokens, 3 * 70);
    assert_int_equal(world->load.requests_waiting, 0); /* nobody is kept from coming in */
    assert_int_equal(world->load.requests_running, 1);
    world->unready_odds = 0;
    world_run(world);
    assert_int_equal(world->known[bound].received, 9);
    assert_int_equal(world->known[bound].work.computed_tokens, 150);
    world_assert_empty(world);
    world_close(world);
}

/* Where nothing else runs, steps without rows wait for the rank, and count as none; who leaves
 * meanwhile has had nothing computed, and the rank is told that it need not go on. */
TEST(an_idle_unit_waits_for_constraints_without_computing) {
    struct unit_options options = world_options();
    struct world *world = open_binding(&options);
    world->unready_odds = 1;
    world->shows_empty_steps = true;
    uint32_t first = world_submit(world, 70, 3), second = world_submit(world, 70, 3);
    for (uint32_t i = 0; i < 5; i++) {
        world_step(world);
        world_drain(world);
        assert_true(world->plan->awaits && world->plan->row_count == 0);
        assert_int_equal(world->plan->constraint_count, i == 0 ? 2 : 0);
        world_complete(world, false);
        world_drain(world);
    }
    world_cancel(world, first);
    world_drain(world);
    assert_int_equal(world->known[first].reason, FINISH_CANCELLED);
    assert_int_equal(world->known[first].work.computed_tokens, 0);
    world_step(world);
    world_drain(world);
    assert_int_equal(world->plan->constraint_count, 1);
    assert_int_equal(step_plan_constraints(world->plan)->text_bytes, 0); /* it is over */
    assert_false(world->awaited[0][0].is_asked);
    world->unready_odds = 0;
    world_complete(world, false);
    world->shows_empty_steps = false;
    world_run(world);
    assert_int_equal(world->known[second].received, 3);
    assert_int_equal(world->load.totals.steps, 3);
    world_assert_empty(world);
    world_close(world);
}

/* A mask is late: what its row computed counts at once, the row comes again when its mask is there
 * and not before, from its last whole block on, and behind all who came meanwhile. */
TEST(a_late_mask_delays_nobody_else) {
    struct unit_options options = world_options();
    struct world *world = open_binding(&options);
    uint32_t late = world_submit(world, 70, 3);
    world->constraint_bytes = 0;
    uint32_t free_one = world_submit(world, 70, 30);
    while (!world->known[late].rows) {
        world->late_odds = world->unready_odds = 1;
        world->awaited[0][0].is_reported = world->awaited[0][0].is_asked;
        world_step(world);
        world_drain(world);
        if (world->plan) world_complete(world, false);
        world_drain(world);
    }
    assert_int_equal(world->known[late].late, 1);
    assert_int_equal(world->load.totals.prompt_tokens, 140);
    uint32_t received = world->known[free_one].received;
    for (uint32_t i = 1; i <= 10; i++) {
        assert_int_equal(turn_rows(world), 1u << free_one);
        assert_int_equal(world->known[free_one].received, received + i);
    }
    world->late_odds = world->unready_odds = 0;
    while (!world->known[late].received)
        turn(world);
    assert_int_equal(world->known[late].rows, 2);
    world->late_odds = 1; /* a generated row */
    world->unready_odds = 1;
    while (world->known[late].late == 1)
        turn(world);
    assert_int_equal(turn_rows(world), 1u << free_one);
    assert_int_equal(world->known[late].received, 1);
    world->late_odds = world->unready_odds = 0;
    world_run(world);
    assert_int_equal(world->known[late].received, 3);
    assert_int_equal(world->known[late].work.computed_tokens, 70);
    assert_int_equal(world->known[late].work.recomputed_tokens,
                     6 + 1); /* behind its block; a token */
    world_assert_empty(world);
    world_close(world);
}

/* Each of many late rows comes once more: a prompt of several chunks is not computed anew. */
TEST(a_late_row_never_goes_first_twice) {
    struct unit_options options = world_options();
    options.speculate = SPECULATE_NEVER;
    struct world *world = open_binding(&options);
    uint32_t late = world_submit(world, 120, 1);
    world->constraint_bytes = 0;
    world->late_odds = 1;
    world_step(world);
    world_drain(world);
    assert_int_equal(rows_of(world), 1u << late);
    uint32_t other = world_submit(world, 120, 1); /* came later, and goes first now */
    world->now_ns += 10;
    world_complete(world, false);
    world_drain(world);
    world->late_odds = 0;
    world_step(world);
    world_drain(world);
    assert_int_equal(step_plan_rows(world->plan)[0].sampling.seed, other);
    world_complete(world, false);
    world_run(world);
    assert_int_equal(world->known[late].rows, 2);
    assert_int_equal(world->known[late].work.recomputed_tokens, 120 - 64);
    world_assert_empty(world);
    world_close(world);
}

/* A rank dies in the step that brings a constraint, ahead of a row or with it: it comes again. */
TEST(what_a_broken_step_brought_is_brought_again) {
    struct unit_options options = world_options();
    struct world *world = open_binding(&options);
    world->shows_empty_steps = true;
    world_submit(world, 70, 3);
    for (uint32_t i = 0; i < 4; i++) {
        world->break_odds = i < 3; /* three that ask, one that is taken */
        world_step(world);
        world_drain(world);
        assert_int_equal(world->plan->constraint_count, 1);
        assert_int_equal(world->plan->row_count, 0);
        world_complete(world, false);
        world_drain(world);
    }
    for (uint32_t i = 0; i < 3; i++) {
        world->break_odds = i < 2;
        world_step(world);
        world_drain(world);
        assert_int_equal(world->plan->constraint_count, 1);
        assert_int_equal(step_plan_rows(world->plan)->fresh, 1);
        world_complete(world, false);
        world_drain(world);
    }
    world_run(world);
    assert_int_equal(world->known[0].received, 3);
    world_assert_empty(world);
    world_close(world);
}

/* A plan asks for some requests, whose texts fit into it; the next one asks for others. */
TEST(many_are_asked_for_plan_by_plan) {
    struct unit_options options = world_options();
    options.prompt_bytes = 12 * (size_t)LIMIT_CONSTRAINT_BYTES;
    struct world *world = open_binding(&options);
    world->shows_empty_steps = true;
    world->unready_odds = 1;
    world->constraint_bytes = LIMIT_CONSTRAINT_BYTES / 2;
    for (uint32_t i = 0; i < 5; i++)
        world_submit(world, 10, 2);
    for (uint32_t plan = 0; plan < 4; plan++) {
        static const uint32_t asked[] = {2, 2, 1, 0};
        world_step(world);
        world_drain(world);
        assert_int_equal(world->plan->constraint_count, asked[plan]);
        world_complete(world, false);
        world_drain(world);
    }
    world->shows_empty_steps = false;
    world->unready_odds = 0;
    world_run(world);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(world->known[i].received, 2);
    world_assert_empty(world);
    world_close(world);
}
