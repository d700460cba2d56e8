/* SPDX-License-Identifier: Apache-2.0
 * Protects the vector kernels: every level gives the plain C twin's bits for every length up to
 * three registers and some beyond, inside its buffers, in place or not; and the plain C twin is
 * right by an independent double-precision computation.
 */
#include "test_case.h"

#include "levels.h"

#include <math.h>

#include "base/check.h"
#include "base/number.h"
#include "compute/kernels/tables.h"
#include "unpack_row.h"

#define LENGTH_MAX 700
#define ROWS_MAX 8

static const uint32_t long_lengths[] = {64,  127, 128, 129, 255,       256,
                                        257, 384, 500, 576, LENGTH_MAX};

/* Lengths 1..49, then the long ones; 0 at the end. */
static uint32_t length_at(uint32_t turn) {
    if (turn < 49) return turn + 1;
    return turn - 49 < ARRAY_COUNT(long_lengths) ? long_lengths[turn - 49] : 0;
}

/* What a kernel leaves: up to two outputs and a result. */
struct outcome {
    float *y, *z;
    float result;
};

enum kernel {
    RMSNORM,
    SILU,
    ADD_SCALED,
    SCALE,
    MAXIMUM,
    EXP_SUM,
    ROUND_BF16,
    BF16_BOTH_WAYS,
    ADD_SUM,
    SUM_POSITIVE,
    FROM_E4M3,
    ROTATE,
    ROTATE_INTERLEAVED,
    QUANTIZE,
    QUANTIZE_POWER,
    QUANTIZE_INT8,
    KERNEL_COUNT
};
static const char *const kernel_names[] = {"rmsnorm",
                                           "silu",
                                           "add_scaled",
                                           "scale",
                                           "maximum",
                                           "exp_sum",
                                           "round_bf16",
                                           "bf16 both ways",
                                           "add_sum_bf16",
                                           "sum_positive",
                                           "float_from_e4m3",
                                           "rotate",
                                           "rotate interleaved",
                                           "quantize",
                                           "quantize by powers of two",
                                           "quantize_int8"};

static void run_kernel(const struct kernels *level, enum kernel kernel, const float *x,
                       const float *w, uint32_t n, bool in_place, struct outcome *out) {
    const float *from = x;
    if (in_place || kernel == ADD_SCALED || kernel == SCALE || kernel == ADD_SUM ||
        kernel == ROTATE || kernel == ROTATE_INTERLEAVED) {
        memcpy(out->y, x, n * sizeof(float));
        from = in_place ? out->y : x;
    }
    uint16_t *bits = levels_buffer(n * sizeof(uint16_t));
    switch (kernel) {
    case RMSNORM:
        level->rmsnorm(out->y, from, w, n, 1e-6f);
        break;
    case SILU:
        level->silu_multiply(out->y, from, w, n);
        break;
    case ADD_SCALED:
        level->add_scaled(out->y, w, 0.37f, n);
        break;
    case SCALE:
        level->scale(out->y, -1.7f, n);
        break;
    case MAXIMUM:
        out->result = level->maximum(x, n);
        break;
    case EXP_SUM:
        out->result = level->exp_sum(out->y, from, 0.3f, 1.9f, n);
        break;
    case ROUND_BF16:
        level->round_bf16(out->y, from, n);
        break;
    case BF16_BOTH_WAYS:
        level->bf16_from_float(bits, x, n);
        level->float_from_bf16(out->y, bits, n);
        break;
    case ADD_SUM:
        level->bf16_from_float(bits, w, n);
        level->add_sum_bf16(out->y, (const uint16_t *const[]){bits, bits, bits},
                            (const float[]){0.37f, -1.3f, 0.011f}, 1 + n % 3, n);
        break;
    case SUM_POSITIVE: { /* rows that overlap: a row of n behind another by a channel */
        uint32_t columns = n > 4 ? n - 3 : 1, rows = n > 4 ? 4 : 1;
        memset(out->y, 0, n * sizeof(float));
        level->sum_positive(out->y, x, 1, w, rows, columns);
        break;
    }
    case FROM_E4M3:
        level->float_from_e4m3(out->y, (const uint8_t *)(const void *)x, 0.75f, n);
        break;
    case ROTATE:
    case ROTATE_INTERLEAVED:
        level->rotate(out->y, w, n / 2, kernel == ROTATE_INTERLEAVED);
        break;
    case QUANTIZE_INT8: /* the scales, and behind them the codes */
        memset(out->y, 0, n * sizeof(float));
        if (n < 2 * INT8_GROUP) break;
        level->quantize_int8((int8_t *)(void *)(out->y + n / INT8_GROUP), out->y, x,
                             n / INT8_GROUP * INT8_GROUP);
        break;
    default:
        level->quantize_e4m3(out->y, out->z, from, n, kernel == QUANTIZE_POWER);
        break;
    }
    levels_free(bits, n * sizeof(uint16_t));
}

static void check_kernel(const struct kernels *levels, uint32_t level_count, enum kernel kernel,
                         const float *x, const float *w, uint32_t n) {
    size_t bytes = n * sizeof(float), z_bytes = divide_up(n, QUANT_GROUP) * sizeof(float);
    struct outcome first = {0};
    for (uint32_t run = 0; run < 2 * level_count; run++) {
        struct outcome out = {levels_buffer(bytes), levels_buffer(z_bytes), 0};
        run_kernel(&levels[run / 2], kernel, x, w, n, run % 2, &out);
        char what[100];
        snprintf(what, sizeof what, "%s, %s, %u elements%s", kernel_names[kernel],
                 levels[run / 2].name, n, run % 2 ? ", in place" : "");
        if (run == 0) {
            first = out;
            continue;
        }
        if (kernel != MAXIMUM) levels_check_same(what, first.y, out.y, n);
        levels_check_same(what, first.z, out.z, z_bytes / sizeof(float));
        levels_check_same(what, &first.result, &out.result, 1);
        levels_free(out.y, bytes);
        levels_free(out.z, z_bytes);
    }
    levels_free(first.y, bytes);
    levels_free(first.z, z_bytes);
}

TEST(levels_agree_to_the_bit) {
    struct kernels levels[LEVELS_MAX];
    uint32_t level_count = levels_list(levels);
    uint64_t state = 21;
    for (uint32_t turn = 0, n; (n = length_at(turn)); turn++)
        for (int numbers = 0; numbers < NUMBERS_COUNT; numbers++) {
            float *x = levels_buffer(n * sizeof(float)), *w = levels_buffer(n * sizeof(float));
            levels_fill(&state, (enum numbers)numbers, x, n);
            levels_fill(&state, NUMBERS_NORMAL, w, n);
            for (int kernel = 0; kernel < KERNEL_COUNT; kernel++)
                check_kernel(levels, level_count, (enum kernel)kernel, x, w, n);
            levels_free(x, n * sizeof(float));
            levels_free(w, n * sizeof(float));
        }
}

/* Infinities and NaNs anywhere change nothing but what they must, and equally at every level. */
TEST(levels_agree_on_infinities_and_nans) {
    static const float specials[] = {INFINITY, -INFINITY, NAN,     88.8f,    88.7f,     -87.3f,
                                     -87.4f,   447.9f,    3.4e38f, -3.4e38f, 0x1p-149f, 1e-4f};
    struct kernels levels[LEVELS_MAX];
    uint32_t level_count = levels_list(levels);
    uint64_t state = 22;
    float x[137], w[137];
    for (int turn = 0; turn < 60; turn++) {
        levels_fill(&state, NUMBERS_NORMAL, x, 137);
        levels_fill(&state, NUMBERS_NORMAL, w, 137);
        for (int i = 0; i < 9; i++)
            x[levels_random(&state) % 137] =
                specials[levels_random(&state) % ARRAY_COUNT(specials)];
        for (int kernel = 0; kernel < KERNEL_COUNT; kernel++)
            check_kernel(levels, level_count, (enum kernel)kernel, x, w, 137);
    }
    float nan_bits = float_from_bits(0x7FFFFFFF), low_nan = float_from_bits(0x7F800001);
    for (uint32_t l = 0; l < level_count; l++) {
        float y[2] = {nan_bits, low_nan};
        levels[l].round_bf16(y, y, 2);
        assert_true(isnan(y[0]) && isnan(y[1]));
    }
}

/* All 2^32 floats in steps: exp is within an ulp and a half, and every level has the same bits. */
TEST(exp_is_right_to_an_ulp_and_a_half) {
    struct kernels levels[LEVELS_MAX];
    uint32_t level_count = levels_list(levels);
    double worst = 0;
    for (uint32_t base = 0; base < 0xFFFFFFFFu - 997 * 16; base += 997 * 16) {
        float x[16], expected[16], found[16];
        for (uint32_t i = 0; i < 16; i++) {
            x[i] = float_from_bits(base + i * 997);
            expected[i] = kernels_exp(x[i]);
            double exact = exp((double)x[i]);
            if (x[i] >= -87.3f && x[i] <= 88.7f) {
                double ulp = (double)(nextafterf((float)exact, INFINITY) - (float)exact);
                worst = fmax(worst, fabs((double)expected[i] - exact) / ulp);
            } else if (!isnan(x[i])) {
                assert_true(expected[i] == (x[i] < 0 ? 0.0f : INFINITY));
            }
        }
        if (base % 64 == 0) /* every fourth through the levels */
            for (uint32_t l = 0; l < level_count; l++) {
                levels[l].exp_sum(found, x, 1, 0, 16);
                levels_check_same(levels[l].name, expected, found, 16);
            }
    }
    if (worst > 1.5) fail_msg("exp is off by %g ulp", worst);
}

/* The plain C twin against doubles. */
TEST(the_plain_simulator_is_right) {
    const struct kernels *c = &kernels_table_c;
    uint64_t state = 23;
    for (uint32_t turn = 0, n; (n = length_at(turn)); turn++) {
        float x[LENGTH_MAX], w[LENGTH_MAX], y[LENGTH_MAX];
        levels_fill(&state, NUMBERS_NORMAL, x, n);
        levels_fill(&state, NUMBERS_NORMAL, w, n);
        double squares = 0, sum = 0, largest = -INFINITY;
        for (uint32_t i = 0; i < n; i++) {
            squares += (double)x[i] * (double)x[i];
            sum += exp((double)x[i] * 2 - 0.5);
            largest = fmax(largest, (double)x[i]);
        }
        c->rmsnorm(y, x, w, n, 1e-6f);
        for (uint32_t i = 0; i < n; i++) {
            double exact = (double)x[i] / sqrt(squares / n + 1e-6) * (double)w[i];
            assert_true(fabs((double)y[i] - exact) <= 1e-6 * fabs(exact));
        }
        c->silu_multiply(y, x, w, n);
        for (uint32_t i = 0; i < n; i++) {
            double exact = (double)x[i] / (1 + exp(-(double)x[i])) * (double)w[i];
            assert_true(fabs((double)y[i] - exact) <= 1e-6 * fabs(exact));
        }
        assert_true(fabs((double)c->exp_sum(y, x, 2, 0.5f, n) - sum) <= 2e-6 * sum);
        assert_true((double)c->maximum(x, n) == largest);
    }
}

/* Rows summed in doubles, rounded once, lie within a step of the kernel's; a step is a BF16's. */
TEST(a_sum_of_rows_is_rounded_once_and_added) {
    uint64_t state = 25;
    for (uint32_t count = 1; count <= ROWS_MAX; count++) {
        uint16_t rows[ROWS_MAX][300];
        const uint16_t *x[ROWS_MAX];
        float a[ROWS_MAX], y[300], before[300], one[300];
        levels_fill(&state, NUMBERS_NORMAL, before, 300);
        levels_fill(&state, NUMBERS_NORMAL, a, count);
        for (uint32_t k = 0; k < count; k++) {
            levels_fill(&state, NUMBERS_NORMAL, one, 300);
            kernels_table_c.bf16_from_float(rows[k], one, 300);
            x[k] = rows[k];
        }
        memcpy(y, before, sizeof y);
        kernels_table_c.add_sum_bf16(y, x, a, count, 300);
        for (uint32_t i = 0; i < 300; i++) {
            double sum = 0, size = 0;
            for (uint32_t k = 0; k < count; k++) {
                double part = (double)a[k] * (double)float_from_bf16(rows[k][i]);
                sum += part;
                size += fabs(part);
            }
            double added = (double)y[i] - (double)before[i];
            double slack = 1e-6 * (size + fabs((double)before[i]));
            assert_true(fabs(added - sum) <= fabs(sum) * 0x1p-8 + slack);
        }
    }
}

/* A code is the integer nearest to x / s; a group that is not finite has no scale. */
TEST(integers_and_their_scales_are_right) {
    uint64_t state = 27;
    float x[4 * INT8_GROUP], scales[4];
    int8_t codes[4 * INT8_GROUP];
    levels_fill(&state, NUMBERS_NORMAL, x, 4 * INT8_GROUP);
    memset(x + INT8_GROUP, 0, INT8_GROUP * sizeof *x);
    x[2 * INT8_GROUP + 5] = NAN;
    x[3 * INT8_GROUP + 31] = -INFINITY;
    kernels_table_c.quantize_int8(codes, scales, x, 4 * INT8_GROUP);
    float largest = 0;
    for (uint32_t i = 0; i < INT8_GROUP; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    assert_true(scales[0] == largest / 127);
    bool full = false;
    for (uint32_t i = 0; i < INT8_GROUP; i++) {
        assert_true(fabsf(codes[i] - x[i] / scales[0]) <= 0.5f);
        full |= codes[i] == 127 || codes[i] == -127;
        assert_int_equal(codes[INT8_GROUP + i], 0);
        assert_int_equal(codes[2 * INT8_GROUP + i], 0);
    }
    assert_true(full && scales[1] > 0 && isnan(scales[2]) && isnan(scales[3]));
}

/* A sum of what is positive, and all 256 codes. */
TEST(an_indexers_kernels_are_right) {
    uint64_t state = 26;
    float x[ROWS_MAX][40], a[ROWS_MAX], y[256];
    uint8_t codes[256];
    for (uint32_t k = 0; k < ROWS_MAX; k++)
        levels_fill(&state, NUMBERS_NORMAL, x[k], 40);
    levels_fill(&state, NUMBERS_NORMAL, a, ROWS_MAX);
    kernels_table_c.sum_positive(y, x[0], 40, a, ROWS_MAX, 40);
    for (uint32_t i = 0; i < 40; i++) {
        double sum = 0, size = 0;
        for (uint32_t k = 0; k < ROWS_MAX; k++) {
            sum += (double)a[k] * fmax((double)x[k][i], 0);
            size += fabs((double)a[k] * (double)x[k][i]);
        }
        assert_true(fabs((double)y[i] - sum) <= 1e-6 * size);
    }
    for (uint32_t i = 0; i < 256; i++)
        codes[i] = (uint8_t)i;
    kernels_table_c.float_from_e4m3(y, codes, 3, 256);
    for (uint32_t i = 0; i < 256; i++)
        assert_true(y[i] ==
                    (i % 128 == 127 ? (i < 128 ? 1440 : -1440) : float_from_e4m3(codes[i]) * 3));
}

/* Codes are what e4m3(x / s) says, with s by its formula; s as a power of two is the next one up.
 */
TEST(quantized_codes_and_scales_are_right) {
    uint64_t state = 24;
    for (int numbers = 0; numbers < NUMBERS_COUNT; numbers++)
        for (int power = 0; power < 2; power++) {
            float x[300], codes[300], scales[3];
            levels_fill(&state, (enum numbers)numbers, x, 300);
            kernels_table_c.quantize_e4m3(codes, scales, x, 300, power);
            for (uint32_t g = 0; g < 3; g++) {
                uint32_t end = g < 2 ? (g + 1) * 128 : 300;
                float largest = 1e-4f;
                for (uint32_t i = g * 128; i < end; i++)
                    largest = fmaxf(largest, fabsf(x[i]));
                double s = (double)(largest / 448.0f);
                if (power) s = exp2(ceil(log2(s)));
                assert_true((double)scales[g] == s);
                for (uint32_t i = g * 128; i < end; i++)
                    assert_true(codes[i] == float_from_e4m3(e4m3_from_float(x[i] / scales[g])));
            }
        }
}

static void check_transpose(const struct kernels *level, uint32_t rows, uint32_t cols) {
    size_t x_stride = cols + 3, y_stride = rows + 5;
    size_t x_bytes = ((rows - 1) * x_stride + cols) * sizeof(float);
    size_t y_bytes = ((cols - 1) * y_stride + rows) * sizeof(float);
    float *x = levels_buffer(x_bytes);
    float *y = levels_buffer(y_bytes);
    float untouched = y[0];
    for (size_t i = 0; i < x_bytes / sizeof *x; i++)
        x[i] = (float)i;
    level->transpose(y, y_stride, x, x_stride, rows, cols);
    for (size_t c = 0; c < cols; c++)
        for (size_t r = 0; r < y_stride && c * y_stride + r < y_bytes / 4; r++) {
            size_t at = r * x_stride + c;
            float expected = r >= rows ? untouched : (float)at;
            levels_check_same(level->name, &expected, &y[c * y_stride + r], 1);
        }
    levels_free(x, x_bytes);
    levels_free(y, y_bytes);
}

TEST(a_transposed_tile_is_the_tile) {
    static const uint32_t sizes[] = {1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 192};
    struct kernels levels[LEVELS_MAX];
    uint32_t level_count = levels_list(levels);
    for (uint32_t l = 0; l < level_count; l++)
        for (size_t r = 0; r < ARRAY_COUNT(sizes); r++)
            for (size_t c = 0; c < ARRAY_COUNT(sizes); c++)
                check_transpose(&levels[l], sizes[r], sizes[c]);
}

/* The softmax whose weights are BF16, chunk after chunk: each level that has it gives the twin's
 * bits, with zeros behind the last score up to a whole block. */
TEST(softmax_in_bf16_is_that_of_plain_c) {
    struct kernels levels[LEVELS_MAX];
    uint32_t count = levels_list(levels);
    uint64_t state = 17;
    for (uint32_t l = 0; l < count; l++) {
        if (!levels[l].softmax_bf16) continue;
        float max = -INFINITY, sum = 0, expected_max = max, expected_sum = sum;
        for (uint32_t n = 1; n <= levels[l].core_blocks * KV_BLOCK_TOKENS; n++) {
            uint16_t weights[CORE_BLOCKS_MAX * KV_BLOCK_TOKENS];
            uint16_t expected[CORE_BLOCKS_MAX * KV_BLOCK_TOKENS];
            memset(weights, 0xA5, sizeof weights);
            memset(expected, 0xA5, sizeof expected);
            float *scores = levels_buffer(n * sizeof(float));
            levels_fill(&state, NUMBERS_NORMAL, scores, n);
            for (uint32_t i = 0; i < n; i++)
                scores[i] *= n % 5 ? 7.0f : 50.0f; /* of some blocks most weights are 0 */
            float factor = levels[l].softmax_bf16(weights, scores, n, 0.7f, &max, &sum);
            float simulator =
                vector_c_softmax_bf16_c(expected, scores, n, 0.7f, &expected_max, &expected_sum);
            levels_check_same("factor", &simulator, &factor, 1);
            levels_check_same("max", &expected_max, &max, 1);
            levels_check_same("sum", &expected_sum, &sum, 1);
            assert_memory_equal(weights, expected, sizeof weights);
            levels_free(scores, n * sizeof(float));
        }
    }
}

/* Weights that are rounded to BF16 for attention: each level gives the twin's pairs, of all
 * types. */
TEST(a_panel_is_rounded_as_in_plain_c) {
    static const enum weight_type types[] = {WEIGHT_FP8, WEIGHT_BF16, WEIGHT_F32};
    enum { COLS = 2 * QUANT_GROUP + 34, ROWS = 5 * MATMUL_PANEL, BLOCKS = 3 };
    struct kernels levels[LEVELS_MAX];
    uint32_t count = levels_list(levels);
    float *values = levels_buffer(sizeof(float) * ROWS * COLS), scales[2 * BLOCKS];
    uint64_t state = 23;
    levels_fill(&state, NUMBERS_NORMAL, values, ROWS * COLS);
    for (uint32_t i = 0; i < ARRAY_COUNT(scales); i++)
        scales[i] = 0.0037f * (float)(i + 1);
    for (uint32_t l = 0; l < count; l++)
        for (uint32_t t = 0; levels[l].bf16_panel && t < ARRAY_COUNT(types); t++) {
            size_t bytes = weight_type_bytes(types[t], ROWS * COLS);
            uint8_t *data = levels_buffer(bytes);
            for (uint32_t i = 0; i < ROWS * COLS; i++) {
                if (types[t] == WEIGHT_FP8) data[i] = i % 128 == 127 ? 0 : (uint8_t)i;
                if (types[t] == WEIGHT_BF16) ((uint16_t *)data)[i] = bf16_from_float(values[i]);
                if (types[t] == WEIGHT_F32) ((float *)data)[i] = values[i];
            }
            struct packed_matrix weights = {
                .type = types[t], .rows = ROWS, .cols = COLS, .data = data, .scales = scales};
            for (uint32_t panel = 0; panel < packed_panels(ROWS); panel++) {
                uint16_t pairs[COLS * MATMUL_PANEL], expected[COLS * MATMUL_PANEL];
                levels[l].bf16_panel(pairs, &weights, panel);
                vector_c_bf16_panel_c(expected, &weights, panel);
                assert_memory_equal(pairs, expected, sizeof pairs);
                float first[COLS];
                unpack_row(&weights, panel * MATMUL_PANEL, first);
                for (uint32_t c = 0; c < COLS; c++)
                    assert_int_equal(pairs[c / 2 * MATMUL_PANEL * 2 + c % 2],
                                     bf16_from_float(first[c]));
            }
            levels_free(data, bytes);
        }
    levels_free(values, sizeof(float) * ROWS * COLS);
}

static void check_pair_rows(const struct kernels *level, uint32_t rows, uint32_t cols) {
    const uint32_t all = (uint32_t)round_up(rows, BF16_PAIR_ROWS), stride = cols + 3;
    size_t x_bytes = ((rows - 1) * stride + cols) * sizeof(float);
    size_t bytes = (size_t)all * cols * sizeof(uint16_t);
    float *x = levels_buffer(x_bytes);
    uint16_t *pairs = levels_buffer(bytes);
    uint64_t state = rows * 1000 + cols;
    levels_fill(&state, NUMBERS_NORMAL, x, (rows - 1) * stride + cols);
    level->bf16_pair_rows(pairs, x, stride, rows, cols);
    for (uint32_t r = 0; r < all; r++)
        for (uint32_t c = 0; c < cols; c++)
            assert_int_equal(pairs[((size_t)r / 2 * cols + c) * 2 + r % 2],
                             r < rows ? bf16_from_float(x[r * stride + c]) : 0);
    levels_free(pairs, bytes);
    levels_free(x, x_bytes);
}

TEST(rows_become_pairs) {
    static const uint32_t sizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 64, 127, 128};
    struct kernels levels[LEVELS_MAX];
    uint32_t count = levels_list(levels);
    for (uint32_t l = 0; l < count; l++)
        for (size_t r = 0; levels[l].bf16_pair_rows && r < ARRAY_COUNT(sizes); r++)
            for (size_t c = 0; c < ARRAY_COUNT(sizes); c++)
                check_pair_rows(&levels[l], sizes[r], sizes[c]);
}
