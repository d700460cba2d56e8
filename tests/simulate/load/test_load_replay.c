/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/load/load_replay.h"

#include <math.h>

#include "base/check.h"
#include "test_case.h"

static uint64_t blocks[] = {0, 1, 0, 2, 0, 1, 3};
static struct load_trace_row rows[] = {
    {0, 1024, 100, 0, 2},
    {1, 1100, 50, 2, 2},
    {2, 1536, 10, 4, 3},
};
static const struct load_trace trace = {rows, 3, blocks, ARRAY_COUNT(blocks), true};

static char memory[1 << 16];

static struct simulator_source open_source(const struct load_replay_options *options) {
    struct arena arena;
    struct load_replay *replay = NULL;
    struct error error = {""};
    assert_true(load_replay_bytes(options) <= sizeof memory);
    arena_over(&arena, memory, sizeof memory);
    if (load_replay_open(&arena, options, &replay, &error)) fail_msg("%s", error.text);
    return load_replay_source(replay);
}

static struct load_replay_options options_of(void) {
    return (struct load_replay_options){.trace = &trace,
                                        .block_tokens = LOAD_TRACE_BLOCK_TOKENS,
                                        .speed = 1,
                                        .plays = 1,
                                        .abreast = 1};
}

TEST(rows_come_as_they_were_recorded) {
    struct load_replay_options options = options_of();
    struct simulator_source source = open_source(&options);
    struct simulator_request request;
    uint64_t first[2];
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_true(source.next(source.self, &request));
        assert_int_equal(request.arrival_ns, (int64_t)i * 1000000000);
        assert_int_equal(request.prompt_tokens, rows[i].prompt_tokens);
        assert_int_equal(request.answer_tokens, rows[i].output_tokens);
        assert_int_equal(request.block_count, rows[i].block_count);
        if (i == 0) memcpy(first, request.blocks, sizeof first);
        assert_true(request.blocks[0] == first[0]);
        if (i == 1) assert_true(request.blocks[1] != first[1]);
        if (i == 2) assert_true(request.blocks[1] == first[1]);
    }
    assert_false(source.next(source.self, &request));
}

TEST(shorter_prompts_share_as_much) {
    struct load_replay_options options = options_of();
    options.block_tokens = 64; /* an eighth */
    struct simulator_source source = open_source(&options);
    struct simulator_request request;
    assert_true(source.next(source.self, &request));
    assert_int_equal(request.prompt_tokens, 128);
    assert_int_equal(request.answer_tokens, 13);
    assert_int_equal(request.block_count, 2);
    assert_int_equal(request.block_tokens, 64);
}

/* A prompt of another play begins like none of the first. */
TEST(plays_have_prompts_of_their_own) {
    struct load_replay_options options = options_of();
    options.plays = 2;
    options.speed = 2;
    struct simulator_source source = open_source(&options);
    struct simulator_request request;
    uint64_t first = 0;
    for (size_t i = 0; i < 2 * ARRAY_COUNT(rows); i++) {
        assert_true(source.next(source.self, &request));
        /* The second play's first row comes as far behind the last one as rows are apart. */
        assert_int_equal(request.arrival_ns, (int64_t)i * 500000000);
        if (i == 0) first = request.blocks[0];
        assert_true((request.blocks[0] == first) == (i < ARRAY_COUNT(rows)));
    }
    assert_false(source.next(source.self, &request));
}

TEST(plays_abreast_come_at_the_rate_that_is_asked_for) {
    struct load_replay_options options = options_of();
    options.plays = 0;
    options.abreast = 5;
    options.requests_per_s = 8;
    struct simulator_source source = open_source(&options);
    struct simulator_request request;
    int64_t before = 0;
    enum { COUNT = 3000 };
    for (int i = 0; i < COUNT; i++) {
        assert_true(source.next(source.self, &request));
        assert_true(request.arrival_ns >= before);
        before = request.arrival_ns;
    }
    assert_true(fabs(COUNT / ((double)before * 1e-9) / 8 - 1) < 0.01);
}

TEST(what_is_too_long_is_cut) {
    struct load_replay_options options = options_of();
    options.tokens_max = 600;
    struct simulator_source source = open_source(&options);
    struct simulator_request request;
    while (source.next(source.self, &request)) {
        assert_true(request.prompt_tokens + request.answer_tokens <= 600);
        assert_int_equal(request.block_count, 1);
    }
}

TEST(a_trace_without_times_needs_a_rate) {
    struct load_trace timeless = trace;
    struct load_replay_options options = options_of();
    struct load_replay *replay;
    struct arena arena;
    struct error error = {""};
    timeless.has_arrivals = false;
    options.trace = &timeless;
    arena_over(&arena, memory, sizeof memory);
    assert_int_equal(load_replay_open(&arena, &options, &replay, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "requests_per_s"));
}
