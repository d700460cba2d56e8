/* SPDX-License-Identifier: Apache-2.0
 * Protects choices of experts on a GPU, emulated: experts, their weights and the rows of their
 * pairs are the reference bodies', bit for bit, with many equal numbers too, and under every
 * schedule.
 */
#include "test_case.h"

#include "entries.h"

#include <math.h>

#include "base/check.h"
#include "compute/emulated/gpu_reference.h"

/* Rules of DeepSeek's models, and odd ones. */
static const struct gpu_route rules[] = {
    {.experts_all = 256,
     .per_token = 8,
     .groups = 8,
     .groups_kept = 4,
     .method = ROUTER_NOAUX_TC,
     .scoring = ROUTER_SIGMOID,
     .normalizes = 1,
     .scaling = 2.5f},
    {.experts_all = 160,
     .per_token = 6,
     .groups = 8,
     .groups_kept = 3,
     .method = ROUTER_GROUP_LIMITED,
     .scoring = ROUTER_SOFTMAX,
     .scaling = 16},
    {.experts_all = 64,
     .per_token = 6,
     .groups = 1,
     .groups_kept = 1,
     .method = ROUTER_GREEDY,
     .scoring = ROUTER_SOFTMAX,
     .scaling = 1},
    {.experts_all = 300,
     .per_token = 3,
     .groups = 100,
     .groups_kept = 2,
     .method = ROUTER_NOAUX_TC,
     .scoring = ROUTER_SOFTMAX,
     .normalizes = 1,
     .scaling = 1.5f},
    {.experts_all = 12,
     .per_token = 12,
     .groups = 12,
     .groups_kept = 12,
     .method = ROUTER_NOAUX_TC,
     .scoring = ROUTER_SIGMOID,
     .normalizes = 1,
     .scaling = 3},
};

/* Small integers as logits, so that many are equal. */
static void check_rule(uint32_t seed) {

    struct gpu_route of = rules[seed % ARRAY_COUNT(rules)];
    uint32_t stride = of.experts_all + 4, words = ROWS * of.per_token;
    float *logits = numbers((size_t)ROWS * stride, "logits");
    float *bias = numbers(of.experts_all, "bias");
    for (uint32_t i = 0; seed % 3 && i < ROWS * stride; i++)
        logits[i] = (float)draw(9) - 4;
    for (uint32_t i = 0; i < of.experts_all; i++)
        bias[i] = seed % 3 == 1 ? -1 : bias[i];
    struct output experts = output_new(words * sizeof(uint32_t), "experts");
    struct output weights = output_new(words * sizeof(float), "weights");
    of.logits = logits;
    of.bias = of.method == ROUTER_NOAUX_TC ? bias : NULL;
    of.experts = (uint32_t *)(void *)experts.expected;
    of.weights = (float *)(void *)weights.expected;
    of.stride = stride;
    of.rows = ROWS;
    gpu_reference.route.start(&of, NULL);
    of.experts = (uint32_t *)(void *)experts.found;
    of.weights = (float *)(void *)weights.found;
    emulate_seed(seed);
    launch(&gpu_hopper.route, &of);
    output_check(&experts, "experts");
    output_check(&weights, "weights of experts");
    memset(experts.found, 0xFF, experts.bytes);
    of.rows = 1;
    launch(&gpu_hopper.route, &of);
    assert_memory_equal(experts.found, experts.expected, of.per_token * sizeof(uint32_t));
    output_free(&experts);
    output_free(&weights);
    device_free(logits);
    device_free(bias);
}

TEST(experts_are_chosen_as_the_simulator_does) {
    for (uint32_t seed = 0; seed < device_seeds(); seed++)
        check_rule(seed);
}

#define PER_TOKEN 3u

/* Ascending, as chosen experts are: by chance, or all tokens' alike. */
static void choose(uint32_t *slots, uint32_t tokens, uint32_t slot_count, bool alike) {
    for (uint32_t i = 0; i < tokens * PER_TOKEN; i++) {
        uint32_t k = i % PER_TOKEN, wide = slot_count / PER_TOKEN;
        slots[i] = k * wide + (alike ? 0 : draw(wide));
    }
}

TEST(pairs_stand_where_the_simulator_puts_them) {
    static const uint32_t token_counts[] = {1, 5, 85, 86, 300}, slot_counts[] = {3, 10, 64};
    for (uint32_t seed = 0; seed < device_seeds(); seed++) {
        uint32_t tokens = token_counts[seed % 5], slots = slot_counts[seed % 3];
        size_t words = (size_t)tokens * PER_TOKEN * sizeof(uint32_t);
        uint32_t *chosen = device_new(words, "slots");
        struct output pair_row = output_new(words, "rows of pairs");
        struct output row_token = output_new(words, "tokens of rows");
        struct output groups = output_new(slots * sizeof(struct gpu_group), "groups");
        struct output counts = output_new(slots * sizeof(uint32_t), "tokens of slots");
        choose(chosen, tokens, slots, seed % 4 == 3);
        for (uint32_t i = 0; i < slots; i++)
            ((uint32_t *)(void *)counts.expected)[i] = draw(100);
        memcpy(counts.found, counts.expected, counts.bytes);
        emulate_seed(seed);
        for (uint32_t i = 0; i < 2; i++) {
            struct gpu_sort of = {chosen,
                                  (void *)(i ? pair_row.found : pair_row.expected),
                                  (void *)(i ? row_token.found : row_token.expected),
                                  (void *)(i ? groups.found : groups.expected),
                                  (void *)(i ? counts.found : counts.expected),
                                  NULL,
                                  tokens,
                                  PER_TOKEN,
                                  slots};
            launch(i ? &gpu_hopper.sort : &gpu_reference.sort, &of);
        }
        output_check(&pair_row, "rows of pairs");
        output_check(&row_token, "tokens of rows");
        output_check(&groups, "groups");
        output_check(&counts, "tokens of slots");
        output_free(&pair_row);
        output_free(&row_token);
        output_free(&groups);
        output_free(&counts);
        device_free(chosen);
    }
}
