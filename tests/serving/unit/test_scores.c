/* SPDX-License-Identifier: Apache-2.0
 * Protects the log probabilities of prompts (SAMPLING_SCORES): each token's is told once, in order,
 * behind those before it in their own form, and before the answer's first token, whatever the
 * chunks, and though the prompt stands in the cache or in the storage, pages are taken away or
 * others share the step. The world checks all that; here it is made hard.
 */

#include "storage.h"
#include "test_case.h"
#include "world.h"

static const struct sampling scored = {.top_p = 1, .flags = SAMPLING_LOGPROBS | SAMPLING_SCORES};

static uint32_t submit_scored(struct world *world, const uint32_t *tokens, uint32_t prompt_count,
                              uint32_t new_tokens_max) {
    return world_submit_resumed(world, &scored, tokens, prompt_count, 0, new_tokens_max);
}

static void make_prompt(uint32_t *tokens, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (5 * i + 3) % VOCAB;
}

TEST(every_token_is_reported_once) {
    static const uint32_t counts[] = {1, 2, 16, 17, 18, 63, 64, 65, 127, 128, 129, 130, 700};
    uint32_t tokens[TOKENS_MAX];
    make_prompt(tokens, TOKENS_MAX);
    for (uint32_t chunk = 64; chunk <= 256; chunk *= 2)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            struct unit_options options = world_options();
            options.chunk_tokens_max = chunk;
            struct world *world = world_open(&options);
            submit_scored(world, tokens, counts[i], 1);
            world_run(world);
            world_assert_empty(world);
            assert_int_equal(world->known[0].scored, counts[i]);
            assert_int_equal(world->known[0].received, 1);
            world_close(world);
        }
}

/* Nothing is skipped, and nothing lies there twice. */
TEST(a_cached_prompt_is_computed_all_the_same) {
    uint32_t tokens[300];
    make_prompt(tokens, 300);
    struct unit_options options = world_options();
    options.prefix_cache = true;
    struct world *world = world_open(&options);
    uint32_t first = world_submit_tokens(world, tokens, 300, 2, 0);
    world_run(world);
    uint32_t cached = world->load.pages_cached;
    uint32_t second = submit_scored(world, tokens, 300, 2);
    world_run(world);
    assert_int_equal(world->load.pages_cached, cached);
    uint32_t third = world_submit_tokens(world, tokens, 300, 2, 0);
    world_run(world);
    world_assert_empty(world);
    assert_int_equal(world->known[first].work.prompt_hit_tokens, 0);
    assert_int_equal(world->known[second].work.prompt_hit_tokens, 0);
    assert_int_equal(world->known[second].work.computed_tokens, 300);
    assert_int_equal(world->known[second].scored, 300);
    assert_int_equal(world->known[third].work.prompt_hit_tokens, 256);
    world_close(world);
}

TEST(what_a_scored_prompt_leaves_others_find) {
    uint32_t tokens[300];
    make_prompt(tokens, 300);
    struct unit_options options = world_options();
    options.prefix_cache = true;
    struct world *world = world_open(&options);
    submit_scored(world, tokens, 300, 2);
    world_run(world);
    uint32_t next = world_submit_tokens(world, tokens, 300, 2, 0);
    world_run(world);
    assert_int_equal(world->known[next].work.prompt_hit_tokens, 256);
    world_assert_empty(world);
    world_close(world);
}

/* Pages are too few for all: some are interrupted, also in mid-prompt, and come back. */
TEST(interruptions_repeat_nothing) {
    uint32_t interrupted = 0, again = 0;
    for (uint32_t seed = 0; seed < 40; seed++) {
        struct unit_options options = world_options();
        options.page_count = 10 + seed % 5;
        options.prefix_cache = seed & 1;
        options.chunk_tokens_max = 64;
        struct world *world = world_open(&options);
        world->stop_odds = 0;
        for (uint32_t i = 0; i < 10; i++) {
            uint32_t tokens[TOKENS_MAX], count = 60 + 37 * (i + seed) % 200;
            make_prompt(tokens, count);
            if (i % 3)
                submit_scored(world, tokens, count, 100 + i);
            else
                world_submit(world, count, 300);
        }
        world_run(world);
        world_assert_empty(world);
        for (uint32_t i = 0; i < world->submitted; i++) {
            const struct known *known = &world->known[i];
            assert_int_equal(known->scored, i % 3 ? known->prompt_count : 0);
            again += i % 3 && known->again;
        }
        interrupted += (uint32_t)world->load.totals.preemptions;
        world_close(world);
    }
    assert_true(interrupted > 40 && again > 20);
}

static void turn(struct world *world) {
    world_drain(world);
    if (world->plan) world_complete(world, false);
    world_drain(world);
    world_step(world);
    world_drain(world);
}

static bool begins_again(const struct world *world, uint32_t number) {
    for (uint32_t i = 0; world->plan && i < world->plan->row_count; i++) {
        const struct step_row *row = &step_plan_rows(world->plan)[i];
        if (row->sampling.seed == number && row->first_position == 0)
            return world->known[number].scored > 1;
    }
    return false;
}

/* Answers before it in turn need new pages while its prompt is under way: it begins again, and what
 * it repeats is not told twice. */
TEST(a_prompt_cut_in_the_middle_goes_on) {
    uint32_t tokens[500], cuts = 0;
    make_prompt(tokens, 500);
    for (uint32_t received = 56; received < 68; received++) {
        struct unit_options options = world_options();
        options.page_count = 19;
        options.chunk_tokens_max = 64;
        options.step_tokens_max = 80;
        struct world *world = world_open(&options);
        world->stop_odds = 0;
        for (uint32_t i = 0; i < 4; i++)
            world_submit(world, 60, 150);
        while (world->known[0].received < received)
            turn(world);
        uint32_t number = submit_scored(world, tokens, 500, 5);
        while (world->known[number].endings == 0) {
            turn(world);
            cuts += begins_again(world, number);
        }
        world_run(world);
        world_assert_empty(world);
        assert_int_equal(world->known[number].scored, 500);
        world_close(world);
    }
    assert_true(cuts > 5);
}

static void take_other(struct world *world, const struct record *record) {
    storage_take(world->context, world, record);
}

static void run_above(struct world *world, struct storage *storage) {
    do {
        world_run(world);
        while (storage->pending_count)
            storage_do(storage, 0);
        world_drain(world);
    } while (world->plan || world->machine.next_wake_ns(world->machine.self) != MACHINE_NEVER);
}

/* What the storage has is not even asked for; an answer that was begun may load again. */
TEST(the_storage_is_not_asked) {
    uint32_t tokens[300];
    make_prompt(tokens, 300);
    struct storage *storage = storage_open(1);
    struct unit_options options = world_options();
    options.prefix_cache = options.kv_storage = true;
    options.kv_choice = KV_CHOICE_LOAD;
    options.page_bytes = 4096;
    struct world *world = world_open(&options);
    world->context = storage;
    world->other = take_other;
    submit_scored(world, tokens, 300, 2);
    run_above(world, storage);
    assert_int_equal(storage->finds, 0);
    assert_int_equal(storage->count, 4); /* it is stored like any other */
    world_submit_tokens(world, tokens, 300, 2, 0);
    run_above(world, storage);
    assert_true(storage->finds > 0);
    world_assert_empty(world);
    world_close(world);
    free(storage);
}
