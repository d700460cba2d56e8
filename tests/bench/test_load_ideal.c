/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/load_ideal.h"

#include "base/check.h"
#include "test_case.h"

static struct load_ideal ideal_of(const struct load_request *requests, size_t count) {
    struct load_ideal ideal;
    struct error error = {""};
    assert_int_equal(load_ideal_of(requests, count, 64, &ideal, &error), STATUS_OK);
    return ideal;
}

#define REQUEST(tokens, ...)                                                                       \
    {                                                                                              \
        .prompt_tokens = (tokens), .output_tokens = 2, .block_tokens = 100,                        \
        .blocks = (const uint64_t[]){__VA_ARGS__},                                                 \
        .block_count = sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)                        \
    }

/* What is shared counts up to the token; a cache of blocks of 64 has the whole ones of it. */
TEST(shared_beginnings_count_by_token_and_by_whole_block) {
    const struct {
        struct load_request second;
        uint64_t hit, block_hit;
    } cases[] = {
        {REQUEST(250, 5, 6, 7), 249, 192}, /* the same prompt: its last token is computed */
        {REQUEST(300, 5, 6, 7), 250, 192}, /* the first one ended in its third block */
        {REQUEST(150, 5, 6), 149, 128},    /* this one ends in the second */
        {REQUEST(250, 5, 8, 7), 100, 64},  /* the third is not the same behind another second */
        {REQUEST(250, 6, 7), 0, 0},        /* the middle alone is no beginning */
        {REQUEST(64, 5), 63, 0},           {REQUEST(1, 5), 0, 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const struct load_request requests[] = {REQUEST(250, 5, 6, 7), cases[i].second};
        struct load_ideal ideal = ideal_of(requests, 2);
        assert_int_equal(ideal.cached_tokens, cases[i].hit);
        assert_int_equal(ideal.block_cached_tokens, cases[i].block_hit);
        assert_int_equal(ideal.prompt_tokens, 250 + cases[i].second.prompt_tokens);
        assert_int_equal(ideal.output_tokens, 4);
    }
}

/* Nothing is forgotten, however much comes between; prompts without ids share nothing. */
TEST(nothing_is_forgotten) {
    enum { COUNT = 5000 };
    static struct load_request requests[2 * COUNT];
    static uint64_t ids[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        ids[i] = i;
        requests[i] = requests[COUNT + i] = (struct load_request){
            .prompt_tokens = 101, .block_tokens = 100, .blocks = &ids[i], .block_count = 1};
    }
    struct load_ideal ideal = ideal_of(requests, (size_t)2 * COUNT);
    assert_int_equal(ideal.cached_tokens, COUNT * 100);
    assert_int_equal(ideal.block_cached_tokens, COUNT * 64);
    for (size_t i = 0; i < (size_t)2 * COUNT; i++)
        requests[i].block_count = 0;
    assert_int_equal(ideal_of(requests, (size_t)2 * COUNT).cached_tokens, 0);
}
