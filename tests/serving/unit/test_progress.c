/* SPDX-License-Identifier: Apache-2.0
 * Protects the progress that a unit reports of a prompt (PROGRESS): a prompt that takes long is
 * reported about once a second, a short one never, and an interrupted or cached one truly. The
 * world checks that no report is early, late or beyond the prompt.
 */
#include "test_case.h"
#include "world.h"

#define MS ((int64_t)1000000)

static struct world *open_slow(uint32_t ranks, uint32_t pages, bool prefix_cache) {
    struct unit_options options = world_options();
    options.chunk_tokens_max = 64;
    options.prefix_cache = prefix_cache;
    options.page_count = pages;
    struct world *world = world_open_ranks(&options, ranks);
    world->stop_odds = 0;
    world->step_ns = 300 * MS;
    world->token_ns = 0;
    return world;
}

/* Steps take their time. */
static void run_slowly(struct world *world) {
    for (;; world_step(world)) {
        world_drain(world);
        int64_t wake_ns = world->machine.next_wake_ns(world->machine.self);
        if (world->plan_count == 0 && wake_ns == MACHINE_NEVER) return;
        if (world->plan_count == 0 && wake_ns > world->now_ns) world->now_ns = wake_ns;
        if (world->plan_count) {
            world->now_ns += world->step_ns;
            world_complete(world, false);
        }
        world_drain(world);
    }
}

static void close_run(struct world *world) {
    run_slowly(world);
    world_assert_empty(world);
    world_close(world);
}

TEST(a_long_prompt_is_reported_once_a_second) {
    for (uint32_t ranks = 1; ranks <= 3; ranks += 2) {
        struct world *world = open_slow(ranks, PAGES_MAX, false);
        uint32_t number = world_submit(world, 990, 4); /* 16 steps, 4.8 s */
        run_slowly(world);
        assert_int_equal(world->known[number].progresses, 3); /* each fourth step */
        assert_int_equal(world->known[number].ready, 12 * 64);
        close_run(world);
    }
}

TEST(a_short_prompt_is_not_reported) {
    struct world *world = open_slow(1, PAGES_MAX, false);
    uint32_t number = world_submit(world, 3 * 64, 40); /* its answer takes longer than a second */
    run_slowly(world);
    assert_int_equal(world->known[number].progresses, 0);
    close_run(world);
}

TEST(a_cached_part_is_ready_at_once) {
    struct world *world = open_slow(1, PAGES_MAX, true);
    uint32_t first = world_submit_family(world, 1, 500, 1);
    run_slowly(world);
    uint32_t second = world_submit_turn(world, first, 100, 1);
    world->step_ns = 1000 * MS;
    run_slowly(world);
    assert_int_equal(world->known[second].progresses, 2);
    assert_int_equal(world->known[second].ready, 448 + 2 * 64);
    close_run(world);
}

/* Pages are too few for all, so that prompts are interrupted and begin again. */
TEST(an_interrupted_prompt_begins_again) {
    for (uint32_t seed = 0; seed < 20; seed++) {
        struct world *world = open_slow(1, 18 + seed % 5, seed & 1);
        world->step_ns = (200 + 100 * (seed % 9)) * MS;
        for (uint32_t i = 0; i < 6; i++)
            world_submit(world, 100 + 150 * ((i + seed) % 6), 200);
        close_run(world);
    }
}

TEST(an_answer_that_goes_on_elsewhere_reports_its_prompt_alone) {
    struct world *world = open_slow(1, PAGES_MAX, false);
    uint32_t tokens[TOKENS_MAX];
    struct sampling sampling = {.top_p = 1};
    for (uint32_t i = 0; i < TOKENS_MAX; i++)
        tokens[i] = 8 + 3 * i % 900;
    world->step_ns = 1000 * MS;
    uint32_t number = world_submit_resumed(world, &sampling, tokens, 300, 600, 602);
    run_slowly(world);
    assert_int_equal(world->known[number].progresses, 4);
    assert_int_equal(world->known[number].ready, 256);
    close_run(world);
}
