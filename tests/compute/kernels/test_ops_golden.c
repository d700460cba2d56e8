/* SPDX-License-Identifier: Apache-2.0
 * Protects the FP8 operators against values made outside of this program: E4M3 decoding and
 * encoding, activation quantization, and FP8 linears, at every level: ops.json of the goldens.
 */
#include "test_case.h"

#include "levels.h"

#include <math.h>

#include "base/number.h"
#include "base/tree.h"
#include "compute/kernels/tables.h"

#include "../../golden/golden.h"
#include "../../keep.h"

static struct arena arena;
static const struct tree *operators[GOLDEN_OPERATORS_MAX];
static uint32_t operators_count;

static int read_goldens(void **unused) {
    size_t arena_bytes = 64 << 20;
    arena_over(&arena, test_keep(malloc(arena_bytes)), arena_bytes);
    operators_count = golden_operators(operators);
    return 0;
}

static double number_at(const struct tree *array, size_t i) {
    double value = NAN;
    assert_true(tree_get_number(tree_at(array, i), &value));
    return value;
}

static float *floats_of(const struct tree *object, const char *key, size_t *count_out) {
    const struct tree *array = tree_member(object, key);
    size_t count = tree_count(array);
    assert_true(count > 0);
    float *out = arena_take(&arena, count * sizeof *out);
    for (size_t i = 0; i < count; i++)
        out[i] = (float)number_at(array, i);
    if (count_out) *count_out = count;
    return out;
}

static uint8_t *codes_of(const struct tree *object, const char *key) {
    const struct tree *array = tree_member(object, key);
    uint8_t *out = arena_take(&arena, tree_count(array));
    for (size_t i = 0; i < tree_count(array); i++)
        out[i] = (uint8_t)number_at(array, i);
    return out;
}

static uint32_t integer_of(const struct tree *object, const char *key) {
    int64_t value;
    assert_true(tree_get_integer(tree_member(object, key), &value));
    return (uint32_t)value;
}

static void check_e4m3(const struct tree *cases) {
    const struct tree *decode = tree_member(cases, "decode");
    assert_int_equal(tree_count(decode), 256);
    for (size_t i = 0; i < 256; i++) {
        float found = float_from_e4m3((uint8_t)i);
        if (tree_is_null(tree_at(decode, i)))
            assert_true(isnan(found));
        else
            assert_true((double)found == number_at(decode, i) &&
                        !signbit(found) == !signbit(number_at(decode, i)));
    }
    size_t count;
    float *in = floats_of(cases, "encode_in", &count);
    uint8_t *bytes = codes_of(cases, "encode_bytes");
    for (size_t i = 0; i < count; i++)
        assert_int_equal(e4m3_from_float(in[i]), bytes[i]);
}

/* Rows of K channels, each quantized by itself. */
static void check_act_quant(const struct tree *cases) {
    struct kernels levels[LEVELS_MAX];
    uint32_t level_count = levels_list(levels);
    assert_true(tree_count(cases) >= 11);
    for (size_t c = 0; c < tree_count(cases); c++) {
        const struct tree *one = tree_at(cases, c);
        uint32_t k = integer_of(one, "K");
        size_t groups = divide_up(k, QUANT_GROUP), count;
        float *x = floats_of(one, "x", &count), *s = floats_of(one, "s", NULL);
        uint8_t *q = codes_of(one, "q");
        bool power = !tree_is_null(tree_member(one, "scale_fmt"));
        for (uint32_t l = 0; l < level_count; l++)
            for (size_t row = 0; row < count / k; row++) {
                float codes[512], scales[4];
                levels[l].quantize_e4m3(codes, scales, x + row * k, k, power);
                levels_check_same("scales", s + row * groups, scales, groups);
                for (uint32_t i = 0; i < k; i++)
                    if (e4m3_from_float(codes[i]) != q[row * k + i])
                        fail_msg("case %zu, row %zu, element %u", c, row, i);
            }
    }
}

/* y_actq: activations quantized; y_dequant: the float activations. The goldens add in another
 * order. */
static void check_linear(const struct kernels *level, const struct tree *one, bool quantized) {
    uint32_t m = integer_of(one, "M"), n = integer_of(one, "N"), k = integer_of(one, "K");
    uint32_t groups = (uint32_t)divide_up(k, QUANT_GROUP), padded = packed_panels(n) * MATMUL_PANEL;
    float *x = floats_of(one, "x", NULL), *scales = floats_of(one, "w_scale_inv", NULL);
    float *expected = floats_of(one, quantized ? "y_actq" : "y_dequant", NULL);
    uint8_t *codes = codes_of(one, "w_bytes");
    void *packed = aligned_alloc(64, packed_data_bytes(WEIGHT_FP8, n, k));
    matmul_pack(WEIGHT_FP8, codes, n, k, 0, n, packed);
    struct packed_matrix weights = {
        .type = WEIGHT_FP8, .rows = n, .cols = k, .data = packed, .scales = scales};
    float *y = arena_take(&arena, (size_t)m * padded * sizeof *y), x_scales[16];
    struct matmul job = {
        .weights = &weights, .x = x, .x_stride = k, .y = y, .y_stride = padded, .m = m};
    if (quantized) {
        for (uint32_t r = 0; r < m; r++)
            level->quantize_e4m3(x + r * k, x_scales + r * groups, x + r * k, k, false);
        job.x_scales = x_scales;
        job.x_scale_stride = groups;
    }
    level->matmul(&job, 0, packed_panels(n));
    double largest = 0;
    for (uint32_t i = 0; i < m * n; i++)
        largest = fmax(largest, fabs((double)expected[i]));
    for (uint32_t r = 0; r < m; r++)
        for (uint32_t i = 0; i < n; i++) {
            double error = fabs((double)y[r * padded + i] - (double)expected[r * n + i]);
            if (!(error <= 1e-6 * largest)) /* a few ulp of the largest: another order of sums */
                fail_msg("%s: y[%u][%u] is %.9g, golden %.9g", level->name, r, i,
                         (double)y[r * padded + i], (double)expected[r * n + i]);
        }
    free(packed);
}

static void check_fp8_linears(const struct tree *cases) {
    struct kernels levels[LEVELS_MAX];
    uint32_t level_count = levels_list(levels);
    assert_true(tree_count(cases) >= 1);
    for (size_t c = 0; c < tree_count(cases); c++)
        for (uint32_t l = 0; l < level_count; l++) {
            check_linear(&levels[l], tree_at(cases, c), false);
            check_linear(&levels[l], tree_at(cases, c), true);
        }
}

TEST(e4m3_codes_are_those_of_the_goldens) {
    for (uint32_t i = 0; i < operators_count; i++)
        check_e4m3(tree_member(operators[i], "e4m3"));
}

TEST(quantized_activations_are_those_of_the_goldens) {
    for (uint32_t i = 0; i < operators_count; i++)
        check_act_quant(tree_member(operators[i], "act_quant"));
}

TEST(fp8_products_are_those_of_the_goldens) {
    for (uint32_t i = 0; i < operators_count; i++)
        check_fp8_linears(tree_member(operators[i], "fp8_linear"));
}

TEST_GROUP(read_goldens, NULL)
