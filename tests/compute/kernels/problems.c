/* SPDX-License-Identifier: Apache-2.0 */
#include "problems.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "compute/kernels/tables.h"

static uint8_t random_code(uint64_t *state, enum weight_kind kind) {
    uint32_t bits = levels_random(state);
    switch (kind) {
    case WEIGHTS_EXTREME:
        return bits & 1 ? 0x7E : 0xFE; /* +-448 */
    case WEIGHTS_TINY:
        return (uint8_t)(bits & 0x87); /* zeros and subnormals */
    default:
        return (bits & 0x7F) == 0x7F ? 0x12 : (uint8_t)bits;
    }
}

static void fill_weights(struct problem *p, uint64_t *state, enum weight_kind kind) {
    static const enum numbers numbers[WEIGHTS_KIND_COUNT] = {NUMBERS_NORMAL, NUMBERS_LARGE,
                                                             NUMBERS_TINY};
    size_t count = (size_t)p->weights.rows * p->weights.cols;
    for (size_t i = 0; weight_type_group(p->weights.type) && i < count / 8; i++) {
        const bool tiny = kind == WEIGHTS_TINY && p->weights.type == WEIGHT_MXFP4;
        ((uint32_t *)p->raw)[i] = levels_random(state) & (tiny ? 0x99999999u : ~0u);
    }
    for (size_t i = 0; !weight_type_group(p->weights.type) && i < count; i++) {
        float value = levels_number(state, numbers[kind]);
        if (p->weights.type == WEIGHT_FP8)
            ((uint8_t *)p->raw)[i] = random_code(state, kind);
        else if (p->weights.type == WEIGHT_BF16)
            ((uint16_t *)p->raw)[i] = bf16_from_float(value);
        else
            ((float *)p->raw)[i] = value;
    }
}

/* x in blocks; values that nobody may read are NaN. */
static void fill_blocks(struct problem *p) {
    uint32_t cols = p->weights.cols, blocks = (uint32_t)divide_up(cols, QUANT_GROUP);
    p->x_block_stride = (p->m + 1) * QUANT_GROUP;
    p->x_block_bytes = blocks * p->x_block_stride * sizeof(uint16_t);
    p->x_blocks = levels_buffer(p->x_block_bytes);
    memset(p->x_blocks, 0xFF, p->x_block_bytes);
    for (uint32_t r = 0; r < p->m; r++)
        for (uint32_t c = 0; c < round_up(cols, 16); c++)
            p->x_blocks[c / QUANT_GROUP * p->x_block_stride + r * QUANT_GROUP + c % QUANT_GROUP] =
                c < cols ? bf16_from_float(p->x[r * p->x_stride + c]) : 0;
}

/* x as integers, and the same as INT8 values; bytes that must not be read are 0xFF. */
static void fill_int8(struct problem *p) {
    const uint32_t cols = p->weights.cols, groups = cols / INT8_GROUP;
    p->x_block_stride = (p->m + 1) * QUANT_GROUP;
    p->x_block_bytes = divide_up(cols, QUANT_GROUP) * p->x_block_stride * sizeof(uint16_t);
    p->x_int8 = levels_buffer(p->x_block_bytes);
    memset(p->x_int8, 0xFF, p->x_block_bytes);
    p->x_scale_stride = groups;
    p->x_scale_bytes = (size_t)p->m * groups * sizeof(float);
    p->x_scales = levels_buffer(p->x_scale_bytes);
    const struct matmul job = {.x_int8 = p->x_int8, .x_block_stride = p->x_block_stride};
    for (uint32_t r = 0; r < p->m; r++)
        for (uint32_t c = 0; c < cols; c += INT8_GROUP) {
            int8_t *to = p->x_int8 + (matmul_int8_row(&job, c / QUANT_GROUP, r) - p->x_int8) +
                         c % QUANT_GROUP;
            float *x = p->x + r * p->x_stride + c;
            kernels_table_c.quantize_int8(to, p->x_scales + r * groups + c / INT8_GROUP, x,
                                          INT8_GROUP);
            for (uint32_t i = 0; i < INT8_GROUP; i++)
                x[i] = to[i];
        }
}

static void fill_x(struct problem *p, uint64_t *state, enum numbers numbers, int form) {
    uint32_t cols = p->weights.cols, blocks = (uint32_t)divide_up(cols, QUANT_GROUP);
    p->x_stride = cols;
    p->x_bytes = (size_t)p->m * cols * sizeof(float);
    p->x = levels_buffer(p->x_bytes);
    levels_fill(state, numbers, p->x, (size_t)p->m * cols);
    p->x_is_bf16 = form == 1 || form == 3;
    p->x_scale_stride = blocks;
    p->x_scale_bytes = (size_t)p->m * blocks * sizeof(float);
    if (p->x_is_bf16) kernels_table_c.round_bf16(p->x, p->x, p->m * cols);
    if (form == 3) fill_blocks(p);
    if (form == PROBLEM_INT8) fill_int8(p);
    if (form != 2) return;
    p->x_scales = levels_buffer(p->x_scale_bytes);
    for (uint32_t r = 0; r < p->m; r++)
        kernels_table_c.quantize_e4m3(p->x + (size_t)r * cols, p->x_scales + (size_t)r * blocks,
                                      p->x + (size_t)r * cols, cols, false);
}

/* Group scales: of any size with numbers of all sizes, else moderate. */
static void make_group_scales(struct problem *p, uint64_t *state, enum numbers numbers) {
    const uint32_t groups = p->weights.cols / weight_type_group(p->weights.type);
    const size_t count = (size_t)p->weights.rows * groups;
    p->scale_bytes = packed_scale_bytes(p->weights.type, p->weights.rows, p->weights.cols);
    p->group_scales = levels_buffer(p->scale_bytes);
    p->raw_scales = malloc(count * sizeof *p->raw_scales);
    for (size_t i = 0; i < count; i++) {
        float scale = fabsf(levels_number(state, NUMBERS_NORMAL)) * 0.01f;
        if (numbers == NUMBERS_MIXED) scale *= i % 3 ? 0x1p-40f : i % 2 ? 0x1p30f : 0;
        if (p->weights.type == WEIGHT_MXFP4) scale = exp2f(floorf(log2f(scale + 0x1p-126f)));
        p->raw_scales[i] = bf16_from_float(scale);
    }
    matmul_pack(WEIGHT_BF16, p->raw_scales, p->weights.rows, groups, 0, p->weights.rows,
                p->group_scales);
    p->weights.group_scales = p->group_scales;
}

/* A super-block by chance, and its values: also scales of either sign and zero. */
static void draw_super(uint64_t *state, enum weight_type type, struct weight_super *super,
                       float *values) {
    const struct weight_blocks *blocks = weight_type_blocks(type);
    super->d = f16_from_float(levels_number(state, NUMBERS_NORMAL) * 0.01f);
    super->d_min = f16_from_float(blocks->has_mins ? levels_number(state, NUMBERS_NORMAL) : 0);
    for (uint32_t g = 0; g < WEIGHT_SUPER_GROUPS; g++) {
        const int32_t scale = (int32_t)(levels_random(state) % 64);
        super->scales[g] = (int8_t)(!blocks->scaled            ? 1
                                    : blocks->has_mins         ? scale
                                    : levels_random(state) & 1 ? scale
                                                               : -scale);
        super->mins[g] = (int8_t)(blocks->has_mins ? levels_random(state) % 64 : 0);
    }
    for (uint32_t c = 0; c < blocks->channels; c++) {
        const uint32_t bits = levels_random(state), g = c / blocks->group;
        super->codes[c] = (int8_t)(type == WEIGHT_Q8_0   ? (int32_t)(bits & 255) - 128
                                   : type == WEIGHT_Q4_0 ? (int32_t)(bits & 15) - 8
                                   : type == WEIGHT_Q4_K ? (int32_t)(bits & 15)
                                   : type == WEIGHT_Q5_K ? (int32_t)(bits & 31)
                                                         : (int32_t)(bits & 63) - 32);
        const float scale = float_from_f16(super->d) * (float)super->scales[g];
        values[c] = scale * (float)super->codes[c];
        if (blocks->has_mins) values[c] -= float_from_f16(super->d_min) * (float)super->mins[g];
    }
}

/* Packs super-blocks by chance; p->raw has their values. */
static void make_blocks(struct problem *p, uint64_t *state) {
    static struct weight_super supers[MATMUL_PANEL];
    const enum weight_type type = p->weights.type;
    const uint32_t rows = p->weights.rows, cols = p->weights.cols;
    const uint32_t channels = weight_type_blocks(type)->channels;
    p->raw = malloc((size_t)rows * cols * sizeof(float));
    p->scale_bytes = packed_scale_bytes(type, rows, cols);
    p->group_scales = levels_buffer(p->scale_bytes);
    p->weights.group_scales = p->group_scales;
    for (uint32_t row = 0; row < rows; row += MATMUL_PANEL)
        for (uint32_t s = 0; s < cols / channels; s++) {
            memset(supers, 0, sizeof supers);
            for (uint32_t r = 0; r < MATMUL_PANEL && row + r < rows; r++)
                draw_super(state, type, &supers[r],
                           (float *)p->raw + (size_t)(row + r) * cols + (size_t)s * channels);
            matmul_pack_super(type, supers, s,
                              (char *)p->data + weight_type_bytes(type, (size_t)row * cols),
                              (char *)p->group_scales + packed_scale_bytes(type, row, cols));
        }
}

struct problem problem_make(uint64_t *state, enum weight_type type, uint32_t m, uint32_t n,
                            uint32_t k, enum weight_kind kind, enum numbers numbers, int form) {
    const uint32_t group = weight_type_group(type);
    if (group) k = (uint32_t)round_up(k, group);
    if (weight_type_blocks(type)) k = (uint32_t)round_up(k, weight_type_blocks(type)->channels);
    struct problem p = {.weights = {.type = type, .rows = n, .cols = k}, .m = m};
    p.data_bytes = packed_data_bytes(type, n, k);
    p.data = levels_buffer(p.data_bytes);
    p.weights.data = p.data;
    if (weight_type_blocks(type)) {
        make_blocks(&p, state);
        fill_x(&p, state, numbers, form);
        return p;
    }
    p.raw = malloc(weight_type_bytes(type, (size_t)n * k));
    assert_int_equal((uintptr_t)p.data % 64, 0);
    fill_weights(&p, state, kind);
    uint32_t half = packed_panels(n) / 2 * MATMUL_PANEL; /* packed in two calls, as threads do */
    if (half) matmul_pack(type, p.raw, n, k, 0, half, p.data);
    matmul_pack(type, (char *)p.raw + weight_type_bytes(type, (size_t)half * k), n, k, half,
                n - half, p.data);
    if (type == WEIGHT_FP8) {
        size_t count = divide_up(n, QUANT_GROUP) * divide_up(k, QUANT_GROUP);
        p.scale_bytes = count * sizeof(float);
        p.scales = levels_buffer(p.scale_bytes);
        for (size_t i = 0; i < count; i++)
            p.scales[i] = fabsf(levels_number(state, NUMBERS_NORMAL)) * 0.01f;
        p.weights.scales = p.scales;
    }
    if (group) make_group_scales(&p, state, numbers);
    fill_x(&p, state, numbers, form);
    return p;
}

void problem_free(struct problem *p) {
    free(p->raw);
    levels_free(p->data, p->data_bytes);
    if (p->scales) levels_free(p->scales, p->scale_bytes);
    if (p->group_scales) levels_free(p->group_scales, p->scale_bytes);
    free(p->raw_scales);
    levels_free(p->x, p->x_bytes);
    if (p->x_scales) levels_free(p->x_scales, p->x_scale_bytes);
    if (p->x_blocks) levels_free(p->x_blocks, p->x_block_bytes);
    if (p->x_int8) levels_free(p->x_int8, p->x_block_bytes);
}

/* Rows [first, first + m) of the product into y, [m][padded rows]. */
static void multiply(const struct kernels *level, const struct problem *p, uint32_t first,
                     uint32_t m, uint32_t panel_first, uint32_t panel_count, float *y) {
    struct matmul job = {
        .weights = &p->weights,
        .x = p->x_blocks || p->x_int8 ? NULL : p->x + first * p->x_stride,
        .x_blocks = p->x_blocks ? p->x_blocks + first * QUANT_GROUP : NULL,
        .x_int8 = p->x_int8 ? p->x_int8 + first * QUANT_GROUP * sizeof(uint16_t) : NULL,
        .x_block_stride = p->x_block_stride,
        .x_stride = p->x_stride,
        .x_scales = p->x_scales ? p->x_scales + first * p->x_scale_stride : NULL,
        .x_scale_stride = p->x_scale_stride,
        .y = y,
        .y_stride = (size_t)packed_panels(p->weights.rows) * MATMUL_PANEL,
        .m = m,
        .x_is_bf16 = p->x_is_bf16,
    };
    level->matmul(&job, panel_first, panel_count);
}

static float *multiply_all(const struct kernels *level, const struct problem *p,
                           size_t *bytes_out) {
    uint32_t panels = packed_panels(p->weights.rows);
    *bytes_out = (size_t)p->m * panels * MATMUL_PANEL * sizeof(float);
    float *y = levels_buffer(*bytes_out);
    multiply(level, p, 0, p->m, 0, panels, y);
    return y;
}

double problem_weight(const struct problem *p, uint32_t row, uint32_t col) {
    size_t at = (size_t)row * p->weights.cols + col;
    if (p->weights.type == WEIGHT_FP8) {
        uint32_t blocks = (uint32_t)divide_up(p->weights.cols, QUANT_GROUP);
        return (double)float_from_e4m3(((uint8_t *)p->raw)[at]) *
               (double)p->scales[row / QUANT_GROUP * blocks + col / QUANT_GROUP];
    }
    const uint32_t group = weight_type_group(p->weights.type);
    if (group) {
        uint32_t code = ((uint32_t *)p->raw)[at / 8] >> at % 8 * 4 & 15;
        size_t of_scale = (size_t)row * (p->weights.cols / group) + col / group;
        return (double)weight_type_value(p->weights.type, code) *
               (double)float_from_bf16(p->raw_scales[of_scale]);
    }
    if (p->weights.type == WEIGHT_BF16) return (double)float_from_bf16(((uint16_t *)p->raw)[at]);
    return (double)((float *)p->raw)[at];
}

/* |y - exact| <= (k + blocks + 4) * 2^-23 * sum |x w s|, plus what denormal arithmetic loses.
 * `rounds`: w s is rounded to BF16. */
static void check_near_exact(const char *name, const struct problem *p, bool rounds,
                             const float *y) {
    const uint32_t group = weight_type_group(p->weights.type);
    const uint32_t scaled = p->x_int8 ? INT8_GROUP : QUANT_GROUP;
    uint32_t cols = p->weights.cols,
             blocks = (uint32_t)divide_up(cols, group ? group : QUANT_GROUP);
    size_t y_stride = (size_t)packed_panels(p->weights.rows) * MATMUL_PANEL;
    for (uint32_t r = 0; r < p->m; r++)
        for (uint32_t n = 0; n < p->weights.rows; n++) {
            double exact = 0, size = 0;
            for (uint32_t c = 0; c < cols; c++) {
                double weight = problem_weight(p, n, c);
                if (rounds) weight = (double)float_from_bf16(bf16_from_float((float)weight));
                double term = (double)p->x[r * p->x_stride + c] * weight;
                if (p->x_scales) term *= (double)p->x_scales[r * p->x_scale_stride + c / scaled];
                exact += term;
                size += fabs(term);
            }
            double found = (double)y[r * y_stride + n];
            double bound = (cols + blocks + 4) * 0x1p-23 * size + cols * 0x1p-125;
            if (!(fabs(found - exact) <= bound))
                fail_msg("%s: y[%u][%u] is %.9g, exactly %.17g, bound %g", name, r, n, found, exact,
                         bound);
        }
}

static bool uses_pairs(const struct kernels *level, const struct problem *p) {
    bool pairs = weight_type_pairs(p->weights.type);
    if (p->x_int8) return false;
    if (weight_type_group(p->weights.type)) pairs = strcmp(level->numerics, "bfdot2") != 0;
    return level->gemm_bf16 && pairs && (p->x_is_bf16 || p->x_scales);
}

/* Weights get their scales before they are multiplied. */
static bool rounds_weights(const struct kernels *level, const struct problem *p) {
    return uses_pairs(level, p) && weight_type_pairs(p->weights.type) &&
           strncmp(level->numerics, "amx", 3) == 0 && !p->x_scales;
}

void problem_check(const struct problem *p, const struct kernels *levels, uint32_t count) {
    size_t bytes;
    float *expected = multiply_all(&levels[0], p, &bytes);
    check_near_exact("c", p, false, expected);
    for (uint32_t l = 1; l < count; l++) {
        float *y = multiply_all(&levels[l], p, &bytes);
        if (!uses_pairs(&levels[l], p)) {
            levels_check_same(levels[l].name, expected, y, bytes / sizeof *y);
        } else {
            check_near_exact(levels[l].name, p, rounds_weights(&levels[l], p), y);
            if (levels_simulator(&levels[l])->matmul && weight_type_pairs(p->weights.type)) {
                float *simulator = multiply_all(levels_simulator(&levels[l]), p, &bytes);
                levels_check_same(levels[l].name, simulator, y, bytes / sizeof *y);
                levels_free(simulator, bytes);
            }
        }
        levels_free(y, bytes);
    }
    levels_free(expected, bytes);
}

/* Batch invariance: a row has the same bits alone, in any window of rows, with any panel split. */
void problem_check_invariance(const struct kernels *level, const struct problem *p,
                              uint64_t *state) {
    uint32_t panels = packed_panels(p->weights.rows);
    size_t row_floats = (size_t)panels * MATMUL_PANEL, bytes;
    float *all = multiply_all(level, p, &bytes);
    float *some = malloc(bytes);
    for (uint32_t m = 1; m <= p->m; m += m < 40 ? 1 : 97) {
        uint32_t first = levels_random(state) % (p->m - m + 1);
        for (uint32_t panel = 0; panel < panels;) {
            uint32_t count = 1 + levels_random(state) % (panels - panel);
            multiply(level, p, first, m, panel, count, some);
            panel += count;
        }
        levels_check_same(level->name, all + first * row_floats, some, m * row_floats);
    }
    free(some);
    levels_free(all, bytes);
}
