/* SPDX-License-Identifier: Apache-2.0
 * Protects a request's pages: what was computed in the very forms is found and shared, nothing of
 * another tenant; cached blocks make room for whoever needs their pages, and no other request's do.
 */

#include "serving/unit/pages.h"
#include "test_case.h"
#include "world.h"

enum { PROMPT = 100, ANSWER = 150, KEYS_MAX = TOKENS_MAX / KV_BLOCK_TOKENS };

/* Of a prompt of `prompt_count` tokens and the answer's first ones behind it. */
static uint32_t hit_of(const struct world *world, const uint32_t *tokens, uint32_t prompt_count,
                       uint32_t token_count, uint8_t tenant) {
    struct {
        struct record_submit submit;
        uint32_t tokens[PROMPT + ANSWER];
    } record = {.submit = {.record.kind = RECORD_SUBMIT,
                           .prompt_count = prompt_count,
                           .resumed_count = token_count - prompt_count,
                           .new_tokens_max = ANSWER + 1,
                           .tenant.bytes = {tenant}}};
    struct block_key keys[KEYS_MAX];
    memcpy(submit_tokens(&record.submit), tokens, token_count * sizeof *tokens);
    uint32_t count = pages_keys(world->unit, &record.submit, keys);
    return prefix_tree_count(&world->unit->tree, keys, count) * KV_BLOCK_TOKENS;
}

TEST(keys_find_what_was_computed) {
    for (uint32_t cache = 0; cache < 2; cache++) {
        struct unit_options options = world_options();
        options.prefix_cache = cache;
        struct world *world = world_open(&options);
        world->stop_odds = 0;
        world_submit(world, PROMPT, ANSWER);
        world_run(world);
        const uint32_t *tokens = world->known[0].tokens;
        for (uint32_t count = PROMPT; count < PROMPT + ANSWER; count++) {
            uint32_t whole = (count - 1) / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS * cache;
            uint32_t of_prompt = PROMPT / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS * cache;
            assert_int_equal(hit_of(world, tokens, PROMPT, count, 0), whole);
            assert_int_equal(hit_of(world, tokens, count, count, 0), of_prompt);
            assert_int_equal(hit_of(world, tokens, PROMPT, count, 1), 0);
        }
        world_assert_empty(world);
        world_close(world);
    }
}

/* Two of one prompt at a time: each computes it, and the blocks of one remain. */
TEST(equal_blocks_are_kept_once) {
    struct unit_options options = world_options();
    options.prefix_cache = true;
    struct world *world = world_open(&options);
    for (int i = 0; i < 2; i++)
        world_submit_family(world, 2, 140, 3);
    world_run(world);
    assert_int_equal(world->hits, 0);
    assert_int_equal(world->load.pages_cached, 140 / KV_BLOCK_TOKENS);
    world_assert_empty(world);
    world_close(world);
}

/* A prompt a page larger than what is free beside the cached blocks; then one that has to wait for
 * pages which somebody holds. */
TEST(cached_blocks_go_when_pages_are_needed_and_held_ones_stay) {
    struct unit_options options = world_options();
    options.prefix_cache = true;
    options.page_count = 10;
    struct world *world = world_open(&options);
    world->stop_odds = 0;
    world_submit(world, 4 * KV_BLOCK_TOKENS, 2);
    world_run(world);
    assert_int_equal(world->load.pages_cached, 4);
    world_submit(world, 6 * KV_BLOCK_TOKENS + 1, 2);
    world_run(world);
    assert_int_equal(world->load.totals.evicted_pages, 1);
    assert_int_equal(world->load.totals.preemptions, 0);
    uint32_t holder = world_submit(world, 5 * KV_BLOCK_TOKENS + 1, 2);
    for (int i = 0; i < 2; i++) {
        world_step(world);
        world_drain(world);
        world_complete(world, false);
        world_drain(world);
    }
    uint32_t large = world_submit(world, 7 * KV_BLOCK_TOKENS, 2);
    world_run(world);
    assert_true(world->known[holder].work.preemptions + world->known[large].work.preemptions == 0);
    world_assert_empty(world);
    world_close(world);
}
