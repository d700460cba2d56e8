/* SPDX-License-Identifier: Apache-2.0
 * Protects the rounding of V4's rows: values are those of the published code's operators
 * (tests/golden/ops_v4.json, ops_v41.json), and rounding twice changes nothing.
 */
#include "test_case.h"

#include "../../golden/golden.h"
#include "base/check.h"
#include "compute/model/kv_rounding.h"

static struct golden_list list, wanted; /* large */

static void expect_values(const struct tree *of, const char *key, uint32_t group, bool e2m1,
                          bool e4m3_scales) {
    float x[GOLDEN_LIST_MAX];
    golden_numbers(tree_member(of, "x"), &list);
    golden_numbers(tree_member(of, key), &wanted);
    assert_true(list.count > 0);
    assert_int_equal(list.count, wanted.count);
    for (uint32_t i = 0; i < list.count; i++)
        x[i] = (float)list.values[i];
    for (int twice = 0; twice < 2; twice++) {
        if (e2m1)
            kv_rounding_e2m1(x, list.count, group, e4m3_scales);
        else
            kv_rounding_e4m3(x, list.count, group);
        for (uint32_t i = 0; i < list.count; i++)
            if (x[i] != (float)wanted.values[i])
                fail_msg("%s: value %u is %.9g, expected %.9g", key, i, (double)x[i],
                         wanted.values[i]);
    }
}

TEST(v4_rounds_as_its_code) {
    const struct tree *operators = golden_read(golden_home(), "ops_v4.json");
    expect_values(tree_member(operators, "fp8_quant_64"), "dequantised", 64, false, false);
    expect_values(tree_member(operators, "fp8_quant_128"), "dequantised", 128, false, false);
    expect_values(tree_member(operators, "fp4_quant"), "dequantised", 32, true, false);
}

static void expect_each(const char *key, uint32_t group, bool e2m1, bool e4m3_scales) {
    const struct tree *cases = tree_member(golden_read(golden_home(), "ops_v41.json"), key);
    assert_true(tree_count(cases) > 0);
    for (size_t i = 0; i < tree_count(cases); i++)
        expect_values(tree_at(cases, i), "values", group, e2m1, e4m3_scales);
}

TEST(v41_rounds_as_its_code) {
    expect_each("window_fp8_32", 32, false, false);
    expect_each("index_fp4_32_ue8m0", 32, true, false);
    expect_each("pooled_fp4_16_e4m3", 16, true, true);
}
