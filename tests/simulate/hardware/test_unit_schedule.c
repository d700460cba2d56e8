/* SPDX-License-Identifier: Apache-2.0
 * Protects the walk of all ranks: ranks that are alike take what one takes alone, delays of several
 * ranks do not add up, and a busy receiver's link works on while it waits for the last sender.
 */

#include "test_case.h"

#include <math.h>

#include "hardware_of.h"
#include "simulate/hardware/unit_schedule.h"

#define RANKS 32
#define LAYERS 2
#define PAIRS 100.0

static _Alignas(16) char world_memory[32 << 20];
static struct arena world_arena;
static struct expert_world world;
static struct schedule_work work;
static struct unit_schedule schedule;

/* Two layers, no chance; attention 30 and 70, shared 10, experts 40 at the mean, transfers 50. */
static int open_walk(void **state) {
    static struct model_figures model;
    if (begin_tree(state)) return 1;
    model = model_named("deepseek-v3");
    struct expert_world_options options = {.model = &model, .ranks = RANKS, .seed = 1};
    arena_over(&world_arena, world_memory, sizeof world_memory);
    assert_true(expert_world_open(&world, &world_arena, &options));
    work = (struct schedule_work){.layers = LAYERS, .follower = &schedule.follower};
    work.micro_batches[0] =
        (struct schedule_micro_batch){.attention_0 = 30, .attention_1 = 70, .shared = 10};
    for (uint32_t i = 0; i < LAYERS; i++)
        work.experts[0][i] = (struct schedule_layer){.mlp = 40, .dispatch = 50, .combine = 50};
    schedule = (struct unit_schedule){
        .world = &world, .work = &work, .ranks = RANKS, .pairs_per_token = 1};
    schedule.transfers = (struct stage_transfers){10, 10, 40 / PAIRS, 40 / PAIRS};
    struct unit_schedule_micro_batch *micro_batch = &schedule.micro_batches[0];
    micro_batch->pairs = PAIRS;
    for (uint32_t r = 0; r < RANKS; r++) {
        micro_batch->attention_0[r] = 30, micro_batch->attention_1[r] = 70,
        micro_batch->shared[r] = 10;
        micro_batch->tokens[r] = PAIRS;
        schedule.slowness[r] = 1;
    }
    for (uint32_t i = 0; i <= UNIT_SCHEDULE_TIMES; i++)
        micro_batch->experts[i] = 40.0 * UNIT_SCHEDULE_TIMES_MEANS * i / UNIT_SCHEDULE_TIMES;
    return 0;
}

static double walk_us(enum overlap_kind kind) {
    double waited;
    unit_schedule_begin(&schedule);
    overlap_schedule(overlap_of(kind), &work, &waited);
    return unit_schedule_end(&schedule);
}

TEST_AROUND(ranks_that_are_alike_take_what_one_takes, open_walk, NULL) {
    for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++)
        for (work.expert_batches = 0; work.expert_batches <= SCHEDULE_EXPERT_BATCHES;
             work.expert_batches += SCHEDULE_EXPERT_BATCHES) {
            double us = walk_us((enum overlap_kind)kind);
            assert_true(fabs(us - schedule.follower.walked) < 1e-6);
            assert_true(schedule.experts_us > 0);
        }
}

/* Three of four waves leave while experts compute; the link, slower than they, begins with the
 * first. */
TEST_AROUND(results_leave_while_others_are_computed, open_walk, NULL) {
    double at_once = walk_us(OVERLAP_SEQUENTIAL);
    work.expert_batches = SCHEDULE_EXPERT_BATCHES;
    assert_true(fabs(at_once - walk_us(OVERLAP_SEQUENTIAL) - LAYERS * 40.0 * 3 / 4) < 1e-6);
}

/* Long attention and long experts on two ranks: the second has come to the table's next wait while
 * all wait for the first. */
TEST_AROUND(delays_of_several_ranks_do_not_add_up, open_walk, NULL) {
    double even = walk_us(OVERLAP_SEQUENTIAL);
    schedule.micro_batches[0].attention_1[3] += 20;
    double one = walk_us(OVERLAP_SEQUENTIAL);
    schedule.micro_batches[0].attention_1[4] += 20;
    assert_true(fabs(one - even - LAYERS * 20) < 1e-6);
    assert_true(walk_us(OVERLAP_SEQUENTIAL) == one);
    schedule.micro_batches[0].attention_1[4] -= 20;
    schedule.micro_batches[0].attention_0[4] += 15; /* within the 20 that all wait for rank 3 */
    assert_true(walk_us(OVERLAP_SEQUENTIAL) == one);
    schedule.slowness[5] =
        1.5; /* its experts take 20 longer: behind the dispatch, so that they count */
    assert_true(fabs(walk_us(OVERLAP_SEQUENTIAL) - one - LAYERS * 20) < 1e-6);
}

/* Twice the mean's share of the experts' load on one rank. */
static void load_rank(uint32_t rank) {
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        double *shares = world.shares + (size_t)layer * RANKS;
        for (uint32_t r = 0; r < RANKS; r++)
            shares[r] = (r == rank ? 2.0 : 1.0 - 1.0 / (RANKS - 1)) / RANKS;
    }
}

TEST_AROUND(a_busy_receiver_works_on_while_it_waits_for_the_last_sender, open_walk, NULL) {
    load_rank(7);
    double busy = walk_us(OVERLAP_SEQUENTIAL);
    /* Dispatch 40, experts 40 and combine 40 longer for the busy rank. */
    assert_true(busy > LAYERS * (30 + 70 + 10 + 40 + 50 + 50 + 100));
    schedule.micro_batches[0].attention_1[3] += 20; /* its rows come while those of others do */
    double late = walk_us(OVERLAP_SEQUENTIAL);
    assert_true(late >= busy && late < busy + LAYERS * 2);
}

TEST_AROUND(a_longer_walk_than_the_reported_one_has_the_same_pace, open_walk, NULL) {
    double waited;
    work.layers = 61;
    for (uint32_t i = 0; i < work.layers; i++)
        work.experts[0][i] = work.experts[0][0];
    world.layers = work.layers;
    for (uint32_t layer = 1; layer < 58; layer++)
        memcpy(world.shares + (size_t)layer * RANKS, world.shares, RANKS * sizeof *world.shares);
    work.dense_layers = schedule.dense_layers = 3;
    unit_schedule_begin(&schedule);
    double whole = overlap_schedule(overlap_of(OVERLAP_QUAD_BATCH), &work, &waited);
    assert_true(schedule.follower.walked < whole / 2);
    assert_true(fabs(unit_schedule_end(&schedule) - schedule.follower.walked) < 1e-6);
}
