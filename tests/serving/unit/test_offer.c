/* SPDX-License-Identifier: Apache-2.0
 * Protects what the choice among ranks looks at: a rank's next step has room for a request of every
 * turn but those that come behind a full step's worth of others, as counting them one by one says.
 */

#include "base/random.h"
#include "test_case.h"
#include "world.h"

/* Whether a request of that turn has room behind those that wait, of whom each takes its tokens,
 * but at most three quarters of the step. */
static bool has_room(const struct unit_options *options, uint32_t answers, const int64_t *turns,
                     const uint32_t *tokens, uint32_t count, int64_t turn) {
    uint32_t share = options->step_tokens_max / 4 * 3, taken = answers;
    for (uint32_t i = 0; i < count; i++)
        if (turns[i] <= turn) taken += tokens[i] < share ? tokens[i] : share;
    return taken < options->step_tokens_max;
}

TEST(a_step_is_full_from_one_turn_on) {
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
