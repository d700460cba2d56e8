/* SPDX-License-Identifier: Apache-2.0
 * Protects the kernels on rows for GPUs, emulated: from equal inputs they give the bits of the
 * plain C twins, whatever the numbers and the lengths; a row's bits depend on no other row; and no
 * schedule shows a fault.
 */
#include "test_case.h"

#include "device.h"

#include "base/number.h"
#include "compute/kernels/cuda/row_kernels.h"
#include "compute/kernels/tables.h"

#include "../levels.h"

#define ROWS 5
#define LENGTH_MAX 1160
#define GROUPS_MAX (LENGTH_MAX / QUANT_GROUP + 1)

static const uint32_t lengths[] = {1, 3, 4, 31, 127, 128, 129, 130, 512, 1030, 1157};

/* Rows on the device, and on the host what the twins make of them. */
struct rows {
    uint32_t n;
    size_t stride;
    float *x, *other, *weight, *values;
    uint16_t *rounded;
    uint8_t *codes;
    float *scales, *expected;
    struct row_output outputs[ROW_OUTPUTS];
};

static struct rows rows_make(uint64_t *state, enum numbers numbers, uint32_t n) {
    struct rows r = {.n = n, .stride = round_up(n, 4) + 4};
    size_t count = ROWS * r.stride;
    r.x = device_new(count * sizeof(float), "x");
    r.other = device_new(count * sizeof(float), "other");
    r.weight = device_new(n * sizeof(float), "weight");
    r.values = device_new(count * sizeof(float), "values");
    r.rounded = device_new(count * sizeof(uint16_t), "rounded");
    r.codes = device_new(count, "codes");
    r.scales = device_new(GROUPS_MAX * (ROWS + 3) * sizeof(float), "scales");
    r.expected = malloc(count * sizeof(float));
    levels_fill(state, numbers, r.x, count);
    levels_fill(state, numbers, r.other, count);
    levels_fill(state, NUMBERS_NORMAL, r.weight, n);
    r.outputs[0] = (struct row_output){.values = r.values,
                                       .value_stride = r.stride,
                                       .rounded = r.rounded,
                                       .rounded_stride = r.stride};
    r.outputs[1] = (struct row_output){.codes = r.codes,
                                       .code_stride = r.stride,
                                       .scales = r.scales,
                                       .scale_stride = ROWS + 3,
                                       .scale_power_of_two = n % 2};
    return r;
}

static void rows_free(struct rows *r) {
    void *all[] = {r->x, r->other, r->weight, r->values, r->rounded, r->codes, r->scales};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device_free(all[i]);
    free(r->expected);
}

/* What stands on the device is what `expected` rows give, in each form that was asked for. */
static void check_outputs(const struct rows *r, bool second) {
    const struct kernels *simulator = &kernels_table_c;
    uint16_t rounded[LENGTH_MAX];
    float codes[LENGTH_MAX], scales[GROUPS_MAX];
    for (uint32_t row = 0; row < ROWS; row++) {
        const float *expected = r->expected + row * r->stride;
        levels_check_same("values", expected, r->values + row * r->stride, r->n);
        simulator->bf16_from_float(rounded, expected, r->n);
        assert_memory_equal(rounded, r->rounded + row * r->stride, r->n * sizeof *rounded);
        assert_int_equal(float_bits(r->values[row * r->stride + r->n]), 0xFFFFFFFFu);
        if (!second) continue;
        simulator->quantize_e4m3(codes, scales, expected, r->n, r->n % 2);
        for (uint32_t i = 0; i < r->n; i++)
            assert_int_equal(e4m3_from_float(codes[i]), r->codes[row * r->stride + i]);
        for (uint32_t g = 0; g < divide_up(r->n, QUANT_GROUP); g++)
            assert_int_equal(float_bits(scales[g]), float_bits(r->scales[g * (ROWS + 3) + row]));
        assert_int_equal(r->codes[row * r->stride + r->n], 0xFF);
    }
}

enum kernel { NORM, NORM_ADDED, ACTIVATE, PREPARE, ADD, KERNEL_COUNT };

static void expect(struct rows *r, enum kernel kernel) {
    const struct kernels *simulator = &kernels_table_c;
    for (uint32_t row = 0; row < ROWS; row++) {
        size_t at = row * r->stride;
        float *out = r->expected + at, *x = r->x + at;
        memcpy(out, x, r->n * sizeof *out);
        if (kernel == NORM_ADDED) simulator->add_scaled(out, r->other + at, 1, r->n);
        if (kernel == NORM || kernel == NORM_ADDED)
            simulator->rmsnorm(out, out, r->weight, r->n, 1e-6f);
        if (kernel == ACTIVATE) simulator->silu_multiply(out, x, r->other + at, r->n);
        if (kernel == ADD) simulator->add_scaled(out, r->other + at, -0.7f, r->n);
    }
}

static void run(struct rows *r, enum kernel kernel) {
    struct emulate_report report = {0};
    emulate_collect(&report);
    switch (kernel) {
    case NORM:
    case NORM_ADDED:
        row_kernels_norm(NULL, r->x, r->stride, kernel == NORM ? NULL : r->other, r->stride,
                         r->weight, 1e-6f, r->outputs, ROWS, r->n, NULL);
        break;
    case ACTIVATE:
        row_kernels_activate(NULL, r->x, r->other, r->stride, &r->outputs[0], ROWS, r->n, NULL);
        row_kernels_activate(NULL, r->x, r->other, r->stride, &r->outputs[1], ROWS, r->n, NULL);
        break;
    case PREPARE:
        row_kernels_prepare(NULL, r->x, r->stride, &r->outputs[0], ROWS, r->n, NULL);
        row_kernels_prepare(NULL, r->x, r->stride, &r->outputs[1], ROWS, r->n, NULL);
        break;
    default:
        row_kernels_prepare(NULL, r->x, r->stride, &r->outputs[0], ROWS, r->n, NULL);
        row_kernels_add(NULL, r->values, r->stride, r->other, r->stride, -0.7f, ROWS, r->n, NULL);
        row_kernels_prepare(
            NULL, r->values, r->stride,
            &(struct row_output){.rounded = r->rounded, .rounded_stride = r->stride}, ROWS, r->n,
            NULL);
        break;
    }
    emulate_collect(NULL);
    device_check(&report);
}

TEST(rows_have_the_bits_of_the_twins) {
    uint64_t state = 3;
    for (enum kernel kernel = 0; kernel < KERNEL_COUNT; kernel++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            for (enum numbers numbers = 0; numbers < NUMBERS_COUNT; numbers++) {
                struct rows r = rows_make(&state, numbers, lengths[i]);
                expect(&r, kernel);
                emulate_seed(i);
                run(&r, kernel);
                check_outputs(&r, kernel != ADD);
                rows_free(&r);
            }
}

TEST(a_table_is_looked_up) {
    uint64_t state = 4;
    uint32_t ids[] = {6, 0, 6}, n = 133;
    float *table = device_new(7 * n * sizeof *table, "table");
    uint16_t *halves = device_new(7 * n * sizeof *halves, "table of BF16");
    uint32_t *on_device = device_new_copy(ids, sizeof ids, "ids");
    float *y = device_new(3 * 136 * sizeof *y, "y");
    levels_fill(&state, NUMBERS_MIXED, table, 7 * n);
    kernels_table_c.bf16_from_float(halves, table, 7 * n);
    for (uint32_t half = 0; half < 2; half++) {
        row_kernels_look_up(NULL, half ? halves : NULL, half ? NULL : table, n, on_device, y, 136,
                            3, n, NULL);
        for (uint32_t row = 0; row < 3; row++)
            for (uint32_t i = 0; i < n; i++) {
                float value = table[ids[row] * n + i];
                assert_int_equal(float_bits(half ? bf16_rounded(value) : value),
                                 float_bits(y[row * 136 + i]));
            }
    }
    device_free(table);
    device_free(halves);
    device_free(on_device);
    device_free(y);
}

TEST(no_schedule_shows_a_fault) {
    uint64_t state = 5;
    for (enum kernel kernel = 0; kernel < KERNEL_COUNT; kernel++)
        for (uint32_t seed = 0; seed < device_seeds(); seed++) {
            struct rows r = rows_make(&state, NUMBERS_NORMAL, 515);
            expect(&r, kernel);
            emulate_seed(seed);
            run(&r, kernel);
            check_outputs(&r, kernel != ADD);
            rows_free(&r);
        }
}
