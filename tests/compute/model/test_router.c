/* SPDX-License-Identifier: Apache-2.0
 * Protects the router: the goldens' cases of every kind, -inf for dropped groups, ties to the
 * lowest id, V2's rule of either normalizing or scaling, and that no logits can lead out of the
 * table.
 */
#include <math.h>

#include "test_case.h"

#include "../../golden/golden.h"
#include "base/check.h"
#include "compute/model/router.h"

static int64_t integer(const struct tree *object, const char *key) {
    int64_t value = -1;
    assert_true(tree_get_integer(tree_member(object, key), &value));
    return value;
}

static bool text_is(const struct tree *object, const char *key, const char *expected) {
    struct bytes text = {0};
    tree_get_string(tree_member(object, key), &text);
    return bytes_equal(text, bytes_of(expected));
}

static struct shape shape_of(const struct tree *golden) {
    double scaling = 0;
    assert_true(tree_get_number(tree_member(golden, "routed_scaling_factor"), &scaling));
    bool sigmoid = text_is(golden, "scoring_func", "sigmoid");
    return (struct shape){
        .experts = (uint32_t)integer(golden, "n_routed_experts"),
        .experts_per_token = (uint32_t)integer(golden, "top_k"),
        .groups = (uint32_t)integer(golden, "n_group"),
        .groups_kept = (uint32_t)integer(golden, "topk_group"),
        .scoring = sigmoid ? ROUTER_SIGMOID : ROUTER_SOFTMAX,
        .method = text_is(golden, "topk_method", "noaux_tc")               ? ROUTER_NOAUX_TC
                  : text_is(golden, "topk_method", "group_limited_greedy") ? ROUTER_GROUP_LIMITED
                                                                           : ROUTER_GREEDY,
        .normalize_weights = sigmoid,
        .routed_scaling = (float)scaling,
    };
}

static void expect_golden(const struct tree *golden) {
    struct shape shape = shape_of(golden);
    struct golden_list list;
    float bias[LIMIT_EXPERTS], logits[LIMIT_EXPERTS];
    golden_numbers(tree_member(golden, "e_score_correction_bias"), &list);
    for (uint32_t i = 0; i < list.count; i++)
        bias[i] = (float)list.values[i];
    bool has_bias = list.count > 0;
    const struct tree *tokens = tree_member(golden, "tokens");
    assert_true(tree_count(tokens) > 0);
    for (size_t t = 0; t < tree_count(tokens); t++) {
        uint32_t found[LIMIT_TOP_K_EXPERTS], expected[LIMIT_TOP_K_EXPERTS];
        float weights[LIMIT_TOP_K_EXPERTS];
        golden_numbers(tree_member(tree_at(tokens, t), "logits"), &list);
        for (uint32_t i = 0; i < list.count; i++)
            logits[i] = (float)list.values[i];
        router_choose(&shape, logits, has_bias ? bias : NULL, found, weights);
        uint32_t count =
            golden_ids(tree_member(tree_at(tokens, t), "experts"), expected, LIMIT_TOP_K_EXPERTS);
        golden_numbers(tree_member(tree_at(tokens, t), "weights"), &list);
        assert_int_equal(count, shape.experts_per_token);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t k = 0;
            while (k < count && found[k] != expected[i])
                k++;
            assert_true(k < count);
            assert_true(fabs((double)weights[k] - list.values[i]) <= 1e-5 * (1 + list.values[i]));
        }
    }
}

TEST(choices_are_those_of_the_goldens) {
    const struct tree *operators[GOLDEN_OPERATORS_MAX];
    uint32_t count = golden_operators(operators);
    for (uint32_t k = 0; k < count; k++) {
        const struct tree *routers = tree_member(operators[k], "router");
        assert_true(tree_count(routers) >= 4);
        for (size_t i = 0; i < tree_count(routers); i++)
            expect_golden(tree_at(routers, i));
    }
}

static const struct shape small = {.experts = 8,
                                   .experts_per_token = 3,
                                   .groups = 4,
                                   .groups_kept = 2,
                                   .scoring = ROUTER_SIGMOID,
                                   .method = ROUTER_NOAUX_TC,
                                   .normalize_weights = true,
                                   .routed_scaling = 2};

TEST(ties_go_to_the_lowest_ids) {
    const float logits[8] = {0};
    uint32_t experts[3];
    float weights[3];
    router_choose(&small, logits, NULL, experts, weights);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(experts[i], i);
        assert_true(fabsf(weights[i] - 2.0f / 3) < 1e-6f);
    }
}

/* All biased scores are negative; a dropped group masked with 0 would win. */
TEST(a_dropped_group_cannot_win) {
    const float bias[8] = {-2, -2, -3, -3, -9, -2.1f, -9, -9}, logits[8] = {0};
    uint32_t experts[3];
    float weights[3];
    router_choose(&small, logits, bias, experts, weights);
    assert_int_equal(experts[0], 0);
    assert_int_equal(experts[1], 1);
    assert_int_equal(experts[2], 2); /* not 5: its group scores -11.1 */
}

TEST(weights_are_normalized_then_scaled) {
    struct shape shape = {.experts = 4,
                          .experts_per_token = 2,
                          .groups = 1,
                          .groups_kept = 1,
                          .scoring = ROUTER_SOFTMAX,
                          .method = ROUTER_GREEDY,
                          .routed_scaling = 16};
    const float logits[4] = {1, 1, 0, -INFINITY};
    uint32_t experts[2];
    float weights[2], share = (float)(exp(1) / (2 * exp(1) + 1));
    router_choose(&shape, logits, NULL, experts, weights);
    assert_true(fabsf(weights[0] - 16 * share) < 1e-4f);
    shape.normalize_weights = true;
    router_choose(&shape, logits, NULL, experts, weights);
    assert_true(fabsf(weights[0] - 16 * 0.5f) < 1e-5f);
}

TEST(wild_logits_stay_inside) {
    static const float wild[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 0};
    for (uint32_t trial = 0; trial < 200; trial++) {
        float logits[8], weights[3];
        uint32_t experts[3];
        for (uint32_t i = 0; i < 8; i++)
            logits[i] = wild[(trial * 7 + i * i * (trial % 5 + 1)) % 6];
        router_choose(&small, logits, logits, experts, weights);
        assert_true(experts[0] < experts[1] && experts[1] < experts[2] && experts[2] < 8);
    }
}
