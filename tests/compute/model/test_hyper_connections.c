/* SPDX-License-Identifier: Apache-2.0
 * Protects the residual streams' weights: those of DeepSeek's code (tests/golden/ops_v4.json),
 * after one round of normalization and after all, and those before the head.
 */
#include <math.h>

#include "test_case.h"

#include "../../golden/golden.h"
#include "base/check.h"
#include "compute/model/hyper_connections.h"

static struct golden_list list; /* large */

static void take(const struct tree *array, float *out, uint32_t count) {
    golden_numbers(array, &list);
    assert_int_equal(list.count, count);
    for (uint32_t i = 0; i < count; i++)
        out[i] = (float)list.values[i];
}

static void take_rows(const struct tree *array, float *out, uint32_t rows, uint32_t count) {
    assert_int_equal(tree_count(array), rows);
    for (uint32_t i = 0; i < rows; i++) {
        golden_numbers(tree_at(array, i), &list);
        assert_int_equal(list.count, count);
        for (uint32_t k = 0; k < count; k++)
            out[i * count + k] = (float)list.values[k];
    }
}

static void expect_near(const float *found, const float *expected, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        assert_true(fabsf(found[i] - expected[i]) <= 2e-6f);
}

/* One token of a case of operators. */
static void expect_mix(const struct tree *of, size_t token) {
    float mixes[24], products[24], scale[3], base[24], pre[4], post[4], comb[16];
    double epsilon = 0;
    struct shape shape = {.streams = 4, .stream_rounds = 20};
    assert_true(tree_get_number(tree_member(of, "hc_eps"), &epsilon));
    shape.stream_epsilon = (float)epsilon;
    take(tree_member(of, "scale"), scale, 3);
    take(tree_member(of, "base"), base, 24);
    take(tree_at(tree_member(of, "mixes"), token), products, 24);
    take(tree_at(tree_member(of, "pre"), token), pre, 4);
    take(tree_at(tree_member(of, "post"), token), post, 4);
    memcpy(mixes, products, sizeof mixes);
    hyper_connections_mix(&shape, scale, base, mixes);
    expect_near(mixes, pre, 4);
    expect_near(mixes + 4, post, 4);
    take_rows(tree_at(tree_member(of, "comb"), token), comb, 4, 4);
    expect_near(mixes + 8, comb, 16);
    shape.stream_rounds = 1;
    memcpy(mixes, products, sizeof mixes);
    hyper_connections_mix(&shape, scale, base, mixes);
    take_rows(tree_at(tree_member(of, "comb_after_1"), token), comb, 4, 4);
    expect_near(mixes + 8, comb, 16);
}

TEST(mixes_are_those_of_the_published_code) {
    const struct tree *operators = golden_read(golden_home(), "ops_v4.json");
    const struct tree *cases = tree_member(operators, "hc_mix");
    assert_true(tree_count(cases) > 0);
    for (size_t i = 0; i < tree_count(cases); i++)
        for (size_t token = 0; token < tree_count(tree_member(tree_at(cases, i), "mixes")); token++)
            expect_mix(tree_at(cases, i), token);
}

TEST(the_heads_weights_are_sigmoids) {
    const struct shape shape = {.streams = 2, .stream_epsilon = 1e-6f};
    const float scale[] = {2}, base[] = {0.5f, -1};
    float mixes[] = {0.25f, 3};
    hyper_connections_mix_head(&shape, scale, base, mixes);
    assert_true(fabs((double)mixes[0] - (1 / (1 + exp(-1.0)) + 1e-6)) < 1e-6);
    assert_true(fabs((double)mixes[1] - (1 / (1 + exp(-5.0)) + 1e-6)) < 1e-6);
}
