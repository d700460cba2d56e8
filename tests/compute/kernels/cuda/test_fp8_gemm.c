/* SPDX-License-Identifier: Apache-2.0
 * Protects the FP8 products for GPUs, emulated: they agree with the plain C twin within what sums of
 * 13 bits may cost, and within rounding once sums are exact; a row's bits depend on no other row;
 * nothing but their output is written; and no schedule shows a fault.
 */
#include "device.h"

#include <math.h>
#include <stdlib.h>

#include "base/number.h"
#include "compute/kernels/cuda/fp8_gemm.h"
#include "compute/kernels/tables.h"

#include "../problems.h"

/* A product on the device. */
struct product {
    struct problem problem;
    uint32_t m, n, k, blocks, y_stride;
    void *codes, *x;
    float *weight_scales, *x_scales, *y;
    struct fp8_gemm_weights weights;
    struct fp8_gemm_rows rows;
};

static void *pitched(const uint8_t *rows, uint32_t count, uint32_t bytes, uint32_t pitch,
                     const char *name) {
    uint8_t *memory = device_new((size_t)count * pitch, name);
    for (uint32_t i = 0; i < count; i++)
        memcpy(memory + (size_t)i * pitch, rows + (size_t)i * bytes, bytes);
    return memory;
}

static void load_rows(struct product *p) {
    uint8_t *codes = malloc((size_t)p->m * p->k);
    uint32_t stride = (uint32_t)round_up(p->m, 4), pitch = (uint32_t)round_up(p->k, 16);
    p->x_scales = device_new((size_t)p->blocks * stride * sizeof(float), "x scales");
    for (uint32_t row = 0; row < p->m; row++) {
        for (uint32_t k = 0; k < p->k; k++)
            codes[(size_t)row * p->k + k] =
                e4m3_from_float(p->problem.x[row * p->problem.x_stride + k]);
        for (uint32_t b = 0; b < p->blocks; b++)
            p->x_scales[(size_t)b * stride + row] =
                p->problem.x_scales[row * p->problem.x_scale_stride + b];
    }
    p->x = pitched(codes, p->m, p->k, pitch, "x");
    free(codes);
    assert_true(fp8_gemm_make_rows(&p->rows, p->x, pitch, p->x_scales, stride, p->m, p->k));
}

static struct product product_make(uint64_t *state, uint32_t m, uint32_t n, uint32_t k,
                                   enum weight_kind kind, enum numbers numbers) {
    struct product p = {.m = m, .n = n, .k = k, .blocks = (uint32_t)divide_up(k, QUANT_GROUP)};
    uint32_t pitch = (uint32_t)round_up(k, 16);
    p.problem = problem_make(state, WEIGHT_FP8, m, n, k, kind, numbers, 2);
    p.codes = pitched(p.problem.raw, n, k, pitch, "weights");
    p.weight_scales = device_copy(p.problem.scales,
                                  divide_up(n, QUANT_GROUP) * p.blocks * sizeof(float),
                                  "weight scales");
    p.y_stride = (uint32_t)round_up(n, 2) + 2;
    p.y = device_new((size_t)m * p.y_stride * sizeof(float), "y");
    assert_true(fp8_gemm_make_weights(&p.weights, p.codes, pitch, (uint64_t)pitch * n,
                                      p.weight_scales, n, k, 1));
    load_rows(&p);
    return p;
}

static void product_free(struct product *p) {
    device_free(p->codes);
    device_free(p->x);
    device_free(p->weight_scales);
    device_free(p->x_scales);
    device_free(p->y);
    problem_free(&p->problem);
}

static void run(struct product *p, uint32_t m) {
    struct emulate_report report = {0};
    emulate_collect(&report);
    memset(p->y, 0xFF, (size_t)p->m * p->y_stride * sizeof(float));
    fp8_gemm_run(NULL, &p->weights, &p->rows, p->y, p->y_stride, m);
    emulate_collect(NULL);
    device_check(&report);
}

/* The sum of |x||w| with all scales, of which deviations are parts. */
static double weight_of(const struct product *p, uint32_t row, uint32_t column) {
    double sum = 0;
    for (uint32_t k = 0; k < p->k; k++)
        sum += fabs(p->problem.x[row * p->problem.x_stride + k] *
                    (double)p->problem.x_scales[row * p->problem.x_scale_stride + k / QUANT_GROUP] *
                    problem_weight(&p->problem, column, k));
    return sum;
}

/* The largest deviation from the twin, in parts of that sum. */
static double deviation(const struct product *p) {
    size_t stride = round_up(p->n, MATMUL_PANEL);
    float *y = calloc(p->m * stride, sizeof *y);
    struct matmul job = {.weights = &p->problem.weights,
                         .x = p->problem.x,
                         .x_stride = p->problem.x_stride,
                         .x_scales = p->problem.x_scales,
                         .x_scale_stride = p->problem.x_scale_stride,
                         .y = y,
                         .y_stride = stride,
                         .m = p->m};
    matmul_c_run(&job, 0, packed_panels(p->n));
    double largest = 0;
    for (uint32_t row = 0; row < p->m; row++)
        for (uint32_t c = 0; c < p->n; c++) {
            float found = p->y[(size_t)row * p->y_stride + c];
            assert_true(isfinite(found));
            double apart = fabs(found - (double)y[row * stride + c]);
            double weight = apart > 0 ? weight_of(p, row, c) : 1;
            largest = fmax(largest, apart / fmax(weight, 1e-30));
        }
    free(y);
    return largest;
}

static void check_padding(const struct product *p, uint32_t m) {
    for (uint32_t row = 0; row < p->m; row++)
        for (uint32_t c = row < m ? p->n : 0; c < p->y_stride; c++)
            assert_int_equal(float_bits(p->y[(size_t)row * p->y_stride + c]), 0xFFFFFFFFu);
}

static const uint32_t shapes[][3] = {
    {1, 64, 128}, {7, 200, 200}, {128, 128, 256}, {130, 96, 44}, {65, 8512, 128}, {3, 129, 1000},
};

static void test_agrees_with_the_twin(void **context) {
    uint64_t state = 7;
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t exact = 0; exact < 2; exact++) {
            struct product p = product_make(&state, shapes[i][0], shapes[i][1], shapes[i][2],
                                            WEIGHTS_RANDOM, NUMBERS_NORMAL);
            emulate_e4m3_bits(exact ? 0 : 13);
            run(&p, p.m);
            double found = deviation(&p);
            check_padding(&p, p.m);
            /* The worst that cutting 33 terms to 13 bits may cost is 33 / 8192. */
            if (found > (exact ? 3e-7 : 1e-3))
                fail_msg("%u x %u x %u: %g of sum |x||w|", p.m, p.n, p.k, found);
            print_message("# %u x %u x %u, %s: %.1e of sum |x||w|\n", p.m, p.n, p.k,
                          exact ? "exact sums" : "13 bits", found);
            product_free(&p);
        }
    emulate_e4m3_bits(13);
}

static void test_a_row_alone_has_the_bits_it_has_among_others(void **context) {
    uint64_t state = 8;
    struct product p = product_make(&state, 100, 136, 300, WEIGHTS_RANDOM, NUMBERS_NORMAL);
    run(&p, p.m);
    for (uint32_t row = 0; row < p.m; row += 33) {
        struct product one = p;
        one.problem.x += row * p.problem.x_stride;
        one.problem.x_scales += row * p.problem.x_scale_stride;
        one.m = 1;
        one.y = device_new(p.y_stride * sizeof(float), "y of one row");
        load_rows(&one);
        run(&one, 1);
        assert_memory_equal(one.y, p.y + (size_t)row * p.y_stride, p.n * sizeof(float));
        device_free(one.x);
        device_free(one.x_scales);
        device_free(one.y);
    }
    float *all = malloc((size_t)p.m * p.y_stride * sizeof *all);
    memcpy(all, p.y, (size_t)p.m * p.y_stride * sizeof *all);
    run(&p, 37);
    check_padding(&p, 37);
    for (uint32_t row = 0; row < 37; row++)
        assert_memory_equal(p.y + (size_t)row * p.y_stride, all + (size_t)row * p.y_stride,
                            p.n * sizeof(float));
    free(all);
    product_free(&p);
}

static void test_no_schedule_shows_a_fault(void **context) {
    uint64_t state = 9;
    struct product p = product_make(&state, 70, 200, 1100, WEIGHTS_RANDOM, NUMBERS_NORMAL);
    float *first = malloc((size_t)p.m * p.y_stride * sizeof *first);
    for (uint32_t seed = 0; seed < device_seeds(); seed++) {
        emulate_seed(seed);
        run(&p, p.m);
        if (!seed) memcpy(first, p.y, (size_t)p.m * p.y_stride * sizeof *first);
        assert_memory_equal(first, p.y, (size_t)p.m * p.y_stride * sizeof *first);
    }
    free(first);
    product_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agrees_with_the_twin),
        cmocka_unit_test(test_a_row_alone_has_the_bits_it_has_among_others),
        cmocka_unit_test(test_no_schedule_shows_a_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
