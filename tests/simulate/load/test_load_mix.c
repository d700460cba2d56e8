/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/load/load_mix.h"

#include <math.h>

#include "base/check.h"
#include "base/limits.h"
#include "test_case.h"

#define REQUESTS 400000

static const struct mix_moments published = {
    .prompt_answer_ratio = 608.0 / 168, .hit_share = 342.0 / 608, .kv_tokens = 4989};

static void *memory; /* of the mix that was opened last */

static struct load_mix_options options_of(void) {
    struct load_mix_options options = {
        .shape = {.turns = 2, .answer_cv = 1, .text_cv = 1, .systems = 20, .tokens_max = 131072},
        .requests_per_s = 50,
        .arrival_cv = 1,
        .think_s = 30,
        .ttft_s = 1,
        .tpot_s = 0.05,
        .requests = REQUESTS,
        .seed = 11,
    };
    struct error error;
    assert_int_equal(load_shape_solve(&published, &options.shape, &error), STATUS_OK);
    return options;
}

static struct load_mix *open_mix(const struct load_mix_options *options) {
    struct arena arena;
    struct load_mix *mix = NULL;
    struct error error = {""};
    size_t bytes = load_mix_bytes(options);
    free(memory);
    memory = malloc(bytes);
    arena_over(&arena, memory, bytes);
    if (load_mix_open(&arena, options, &mix, &error)) fail_msg("%s", error.text);
    return mix;
}

static int free_memory(void **state) {
    (void)state;
    free(memory);
    memory = NULL;
    return 0;
}

/* ---- a cache that forgets nothing ---- */

#define SET_ROOM (1u << 26)
static uint64_t *seen; /* [SET_ROOM] open addressing; 0: free */

/* Whether the block was there; it is there afterwards. */
static bool remember(uint64_t block) {
    uint64_t at = block & (SET_ROOM - 1);
    for (; seen[at]; at = (at + 1) & (SET_ROOM - 1))
        if (seen[at] == block) return true;
    seen[at] = block;
    return false;
}

static uint32_t hit_tokens(const struct simulator_request *request) {
    uint32_t hit = 0;
    bool all = true;
    for (uint32_t i = 0; i < request->block_count; i++) {
        all = remember(request->blocks[i]) && all;
        if (all) hit += request->block_tokens;
    }
    return hit;
}

/* The three published moments come out of the requests themselves, not of the formulas. */
TEST(drawn_requests_have_the_published_moments) {
    struct load_mix_options options = options_of();
    struct load_mix *mix = open_mix(&options);
    struct simulator_source source = load_mix_source(mix);
    struct simulator_request request;
    double prompts = 0, answers = 0, hits = 0, read = 0, last = 0;
    seen = calloc(SET_ROOM, sizeof *seen);
    assert_non_null(seen);
    while (source.next(source.self, &request)) {
        prompts += request.prompt_tokens;
        answers += request.answer_tokens;
        hits += hit_tokens(&request);
        read += (request.prompt_tokens + (request.answer_tokens + 1) / 2.0) * request.answer_tokens;
        last = (double)request.arrival_ns;
    }
    free(seen);
    assert_true(fabs(prompts / answers / published.prompt_answer_ratio - 1) < 0.01);
    assert_true(fabs(hits / prompts / published.hit_share - 1) < 0.01);
    assert_true(fabs(read / answers / published.kv_tokens - 1) < 0.01);
    assert_true(fabs(REQUESTS / (last * 1e-9) / options.requests_per_s - 1) < 0.01);
    assert_int_equal(load_mix_cut(mix), 0);
}

TEST(requests_come_in_the_order_of_their_times) {
    struct load_mix_options options = options_of();
    options.requests = 20000;
    options.past = true;
    struct simulator_source source = load_mix_source(open_mix(&options));
    struct simulator_request request;
    int64_t before = 0;
    uint64_t count = 0;
    while (source.next(source.self, &request)) {
        assert_true(request.arrival_ns >= before);
        assert_true(request.prompt_tokens >= 1 && request.answer_tokens >= 1);
        assert_true((uint64_t)request.block_count * request.block_tokens <= request.prompt_tokens);
        assert_true(request.prompt_tokens + request.answer_tokens <= options.shape.tokens_max);
        before = request.arrival_ns;
        count += !request.standing;
    }
    assert_int_equal(count, options.requests);
}

/* Little's law: as many stand at 0 as come in the time that an answer takes. */
TEST(a_past_leaves_as_many_standing_as_a_steady_state_has) {
    struct load_mix_options options = options_of();
    options.requests = 5000;
    options.past = options.stored = true;
    struct simulator_source source = load_mix_source(open_mix(&options));
    struct simulator_request request;
    double standing = 0, stored = 0, prompts = 0;
    while (source.next(source.self, &request)) {
        standing += request.standing;
        assert_true(request.stored_tokens % KV_BLOCK_TOKENS == 0);
        assert_true(request.stored_tokens <= request.prompt_tokens);
        if (request.standing) continue;
        stored += request.stored_tokens;
        prompts += request.prompt_tokens;
    }
    double answer_s = options.ttft_s + options.shape.answer_tokens * options.tpot_s;
    assert_true(fabs(standing / (options.requests_per_s * answer_s) - 1) < 0.05);
    /* Of what a prompt shares, nearly all was before the run, as long as the run is short. */
    assert_true(stored / prompts > 0.3 && stored / prompts < published.hit_share + 0.02);
}

TEST(the_same_seed_draws_the_same_requests) {
    struct load_mix_options options = options_of();
    options.requests = 1000;
    uint64_t digests[3] = {0};
    for (int run = 0; run < 3; run++) {
        options.seed = run < 2 ? 4 : 5;
        struct simulator_source source = load_mix_source(open_mix(&options));
        struct simulator_request request;
        while (source.next(source.self, &request)) {
            digests[run] = load_draw_hash(digests[run], (uint64_t)request.arrival_ns);
            digests[run] = load_draw_hash(digests[run], request.prompt_tokens);
            for (uint32_t i = 0; i < request.block_count; i++)
                digests[run] = load_draw_hash(digests[run], request.blocks[i]);
        }
    }
    assert_true(digests[0] == digests[1]);
    assert_true(digests[0] != digests[2]);
}

TEST(lengths_that_do_not_fit_are_refused) {
    struct load_mix_options options = options_of();
    struct load_mix *mix;
    struct arena arena;
    struct error error = {""};
    options.shape.tokens_max = 512;
    char room[1 << 20];
    arena_over(&arena, room, sizeof room);
    assert_int_equal(load_mix_open(&arena, &options, &mix, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "tokens_max"));
}

TEST_GROUP(NULL, free_memory)
