/* SPDX-License-Identifier: Apache-2.0
 * A request whose unit is lost goes on at another with the tokens that its client has: wherever it
 * is cut, the answer is that of an undisturbed run, alone and among others, with the prefix cache
 * warm or cold, with drafts, penalties and a least length, and when pages run out on top of it. The
 * world checks on the way that every token was computed in its own form, and that penalties and
 * masks see the whole answer.
 */

#include "base/check.h"
#include "base/random.h"
#include "serving/policy/speculate.h"
#include "test_case.h"
#include "world.h"

enum { PROMPT = 100, ANSWER = 150 };

static const struct sampling plain = {.top_p = 1};
static const struct sampling picky = {
    .top_p = 1, .frequency_penalty = 0.5f, .min_tokens = 40, .temperature = 1};

static void make_prompt(uint32_t *tokens, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (5 * i + 3) % VOCAB;
}

static struct world *open_never_stopping(const struct unit_options *options) {
    struct world *world = world_open(options);
    world->stop_odds = 0;
    return world;
}

/* The undisturbed answer, behind its prompt. */
static struct known undisturbed(const struct unit_options *options,
                                const struct sampling *sampling) {
    struct world *world = open_never_stopping(options);
    uint32_t tokens[PROMPT];
    make_prompt(tokens, PROMPT);
    world_submit_resumed(world, sampling, tokens, PROMPT, 0, ANSWER);
    world_run(world);
    world_assert_empty(world);
    struct known known = world->known[0];
    assert_int_equal(known.received, ANSWER);
    world_close(world);
    return known;
}

/* Cut at `cut`, and once more at a later place, each time in a world of its own. */
static void assert_resumes(const struct unit_options *options, const struct sampling *sampling,
                           const struct known *whole, uint32_t cut) {
    uint32_t tokens[PROMPT + ANSWER];
    memcpy(tokens, whole->tokens, sizeof tokens);
    struct world *world = open_never_stopping(options);
    world_submit_resumed(world, sampling, tokens, PROMPT, cut, ANSWER);
    for (uint32_t i = 0; i < 3; i++)
        world_submit(world, 30 + 50 * i, 20);
    world_run(world);
    world_assert_empty(world);
    assert_int_equal(world->known[0].received, ANSWER);
    assert_int_equal(world->known[0].reason, FINISH_LENGTH);
    assert_memory_equal(world->known[0].tokens, whole->tokens, sizeof tokens);
    assert_true(world->load.totals.recomputed_tokens + 1 >= cut);
    world_close(world);
}

TEST(an_answer_cut_anywhere_goes_on_the_same) {
    for (uint32_t way = 0; way < 8; way++) {
        struct unit_options options = world_options();
        const struct sampling *sampling = way & 1 ? &picky : &plain;
        options.speculate = way & 2 ? SPECULATE_ALWAYS : SPECULATE_NEVER;
        options.prefix_cache = way & 4;
        struct known whole = undisturbed(&options, sampling);
        for (uint32_t cut = 0; cut < ANSWER; cut++)
            assert_resumes(&options, sampling, &whole, cut);
    }
}

/* It comes back to the unit where it ran: blocks of its prompt and of its answer are still there,
 * and what the client is told of hits counts only the prompt's. */
TEST(what_is_cached_is_found) {
    struct unit_options options = world_options();
    options.prefix_cache = true;
    struct world *world = open_never_stopping(&options);
    uint32_t tokens[PROMPT + ANSWER];
    make_prompt(tokens, PROMPT);
    world_submit_resumed(world, &plain, tokens, PROMPT, 0, ANSWER);
    world_run(world);
    memcpy(tokens, world->known[0].tokens, sizeof tokens);
    struct record_submit *record =
        world_make(RECORD_SUBMIT, &(struct record_submit){.prompt_count = PROMPT + ANSWER - 1});
    record->request.low = 0;
    record->request.attempt = 0;
    record->prompt_count = PROMPT;
    record->resumed_count = ANSWER - 1;
    record->new_tokens_max = ANSWER;
    record->sampling.top_p = 1;
    memcpy(submit_tokens(record), tokens, (PROMPT + ANSWER - 1) * 4);
    struct known *known = &world->known[0];
    *known = (struct known){.prompt_count = PROMPT,
                            .new_tokens_max = ANSWER,
                            .received = ANSWER - 1,
                            .resumed_count = ANSWER - 1};
    memcpy(known->tokens, tokens, sizeof tokens);
    for (uint32_t i = 0; i < PROMPT + ANSWER - 1; i++)
        known->chain =
            world_chain(known->chain, tokens[i], i < PROMPT ? TOKEN_PROMPT : TOKEN_GENERATED);
    world_send(world, record);
    world_run(world);
    assert_int_equal(known->first_start, (PROMPT + ANSWER - 2) / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS);
    assert_memory_equal(known->tokens, tokens, sizeof tokens);
    world_assert_empty(world);
    world_close(world);
}

/* Too few pages for all: resumed requests are interrupted, and interrupted ones were resumed. */
TEST(resumed_ones_are_interrupted_like_others) {
    uint64_t preemptions = 0;
    for (uint32_t life = 0; life < 20; life++) {
        struct unit_options options = world_options();
        options.page_count = 9;
        options.prefix_cache = life % 2;
        options.speculate = life % 3 ? SPECULATE_ALWAYS : SPECULATE_NEVER;
        struct known whole = undisturbed(&options, &picky);
        struct world *world = open_never_stopping(&options);
        uint32_t cut = (uint32_t)(random_uniform(life, 0, 0) * ANSWER);
        world_submit_resumed(world, &picky, whole.tokens, PROMPT, cut, ANSWER);
        for (uint32_t i = 0; i < 3; i++)
            world_submit(world, 100, 200);
        world_run(world);
        world_assert_empty(world);
        assert_memory_equal(world->known[0].tokens, whole.tokens,
                            (PROMPT + ANSWER) * sizeof(uint32_t));
        preemptions += world->load.totals.preemptions;
        world_close(world);
    }
    assert_true(preemptions > 0);
}
