/* SPDX-License-Identifier: Apache-2.0
 * Protects what the choice among ranks looks at. A rank's next step has room for a request of every
 * turn but those that come behind a full step's worth of others, as counting them one by one says.
 * Keys that were made once, when a request came, find in a rank's pages what was computed there in
 * the very forms, and nothing of another tenant.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "world.h"

enum { PROMPT = 100, ANSWER = 150, KEYS_MAX = TOKENS_MAX / KV_BLOCK_TOKENS };

/* ---- room ---- */

/* Whether a request of that turn has room behind those that wait, of whom each takes its tokens,
 * but at most three quarters of the step. */
static bool has_room(const struct unit_options *options, uint32_t answers, const int64_t *turns,
                     const uint32_t *tokens, uint32_t count, int64_t turn) {
    uint32_t share = options->step_tokens_max / 4 * 3, taken = answers;
    for (uint32_t i = 0; i < count; i++)
        if (turns[i] <= turn) taken += tokens[i] < share ? tokens[i] : share;
    return taken < options->step_tokens_max;
}

static void a_step_is_full_from_one_turn_on(void **state) {
    (void)state;
    struct predict_length lengths = {0};
    uint32_t always = 0, never = 0;
    for (uint32_t life = 0; life < 300; life++) {
        struct unit_options options = world_options();
        struct world *world = world_open(&options);
        uint32_t answers = life % 2, count = life % 9, tokens[8];
        int64_t turns[8];
        world->stop_odds = 0;
        if (answers) world_submit(world, 3, 50);
        for (uint32_t i = 0; i < 2 * answers; i++, world_complete(world, false)) {
            world_drain(world);
            world_step(world);
            world_drain(world);
        }
        for (uint32_t i = 0; i < count; i++) {
            struct record_submit submit = {.new_tokens_max = 5, .sampling = {.top_p = 1}};
            uint32_t text[200] = {0};
            submit.prompt_count = tokens[i] =
                1 + (uint32_t)(random_uniform(life, 0, i) * (life % 3 ? 180 : 60));
            submit.priority = (int32_t)(random_uniform(life, 1, i) * 5) - 2; /* some are equal */
            turns[i] = unit_turn(world->unit, &submit, world->now_ns);
            world_submit_head(world, &submit, text);
        }
        struct unit_offer offer = unit_offer(world->unit, &lengths);
        for (uint32_t i = 0; i < count; i++)
            for (int64_t turn = turns[i] - 1; turn <= turns[i] + 1; turn++)
                assert_int_equal(turn < offer.full_turn,
                                 has_room(&options, answers, turns, tokens, count, turn));
        always += offer.full_turn == INT64_MAX;
        never += count > 0 && offer.full_turn != INT64_MAX;
        assert_int_equal(offer.requests, answers + count);
        world_run(world);
        world_assert_empty(world);
        world_close(world);
    }
    assert_true(always > 50 && never > 50);
}

/* ---- keys ---- */

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
    uint32_t count = unit_keys(world->unit, &record.submit, keys);
    return unit_hit_tokens(world->unit, keys, count);
}

static void keys_find_what_was_computed(void **state) {
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_full_from_one_turn_on),
        cmocka_unit_test(keys_find_what_was_computed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
