/* SPDX-License-Identifier: Apache-2.0
 * Protects the BF16 products for GPUs, emulated: in both forms of weights, alone and many at once,
 * they agree with exact products within the rounding of float sums; groups of rows are products of
 * their own; a row's bits depend on no other row; nothing but their output is written; and no
 * schedule shows a fault.
 */
#include "test_case.h"

#include "device.h"

#include <math.h>

#include "base/number.h"
#include "compute/kernels/cuda/bf16_gemm.h"

#include "../levels.h"

struct shape_of {
    uint32_t m, n, k, batch;
};

struct product_of_bf16 {
    struct shape_of of;
    enum bf16_gemm_form form;
    uint16_t *x, *weights, *rounded;
    float *y;
    uint32_t x_stride, w_stride, y_stride, w_rows;
    struct bf16_gemm_weights made;
    struct bf16_gemm_rows rows;
};

static uint16_t *random_bf16(uint64_t *state, size_t count, const char *name) {
    uint16_t *values = device_new(count * sizeof *values, name);
    for (size_t i = 0; i < count; i++)
        values[i] = bf16_from_float(levels_number(state, NUMBERS_NORMAL));
    return values;
}

static void describe(struct product_of_bf16 *p) {
    const struct shape_of *of = &p->of;
    assert_true(bf16_gemm_make_weights(&p->made, p->weights, p->form, p->w_stride * 2,
                                       (uint64_t)p->w_stride * p->w_rows * 2, of->n, of->k,
                                       of->batch));
    assert_true(bf16_gemm_make_rows(&p->rows, p->x, p->x_stride * 2,
                                    (uint64_t)p->x_stride * of->m * 2, of->m, of->k, of->batch));
}

static struct product_of_bf16 make(uint64_t *state, struct shape_of of, enum bf16_gemm_form form) {
    struct product_of_bf16 p = {.of = of, .form = form};
    bool turned = form == BF16_GEMM_ROWS_OF_N;
    p.x_stride = (uint32_t)round_up(of.k, 8);
    p.w_stride = (uint32_t)round_up(turned ? of.n : of.k, 8);
    p.w_rows = turned ? of.k : of.n;
    p.y_stride = (uint32_t)round_up(of.n, 2) + 2;
    p.x = random_bf16(state, (size_t)of.batch * of.m * p.x_stride, "x");
    p.weights = random_bf16(state, (size_t)of.batch * p.w_rows * p.w_stride, "weights");
    p.y = device_new((size_t)of.batch * of.m * p.y_stride * sizeof(float), "y");
    p.rounded = device_new((size_t)of.batch * of.m * p.y_stride * sizeof(uint16_t), "rounded");
    describe(&p);
    return p;
}

static void discard(struct product_of_bf16 *p) {
    device_free(p->x);
    device_free(p->weights);
    device_free(p->y);
    device_free(p->rounded);
}

static void run(struct product_of_bf16 *p, bool rounded, uint32_t m) {
    struct emulate_report report = {0};
    struct bf16_gemm_output y = {.values = rounded ? NULL : p->y,
                                 .rounded = rounded ? p->rounded : NULL,
                                 .row_stride = p->y_stride,
                                 .batch_stride = (size_t)p->of.m * p->y_stride};
    emulate_collect(&report);
    bf16_gemm_run(NULL, &p->made, &p->rows, &y, m);
    emulate_collect(NULL);
    device_check(&report);
}

/* The deviation of an element from the exact product, in parts of sum |x||w|. */
static double deviation(const struct product_of_bf16 *p, uint32_t b, uint32_t row, uint32_t c) {
    bool turned = p->form == BF16_GEMM_ROWS_OF_N;
    double sum = 0, weight = 1e-30;
    for (uint32_t k = 0; k < p->of.k; k++) {
        size_t w = turned ? k * p->w_stride + c : c * p->w_stride + k;
        double part = (double)float_from_bf16(p->x[((size_t)b * p->of.m + row) * p->x_stride + k]) *
                      (double)float_from_bf16(p->weights[(size_t)b * p->w_rows * p->w_stride + w]);
        sum += part;
        weight += fabs(part);
    }
    float found = p->y[((size_t)b * p->of.m + row) * p->y_stride + c];
    return isfinite(found) ? fabs(sum - (double)found) / weight : INFINITY;
}

static void check_all(const struct product_of_bf16 *p) {
    double largest = 0;
    for (uint32_t row = 0; row < p->of.batch * p->of.m; row++) {
        const float *y = p->y + (size_t)row * p->y_stride;
        for (uint32_t c = 0; c < p->of.n; c++) {
            largest = fmax(largest, deviation(p, row / p->of.m, row % p->of.m, c));
            assert_int_equal(bf16_from_float(y[c]), p->rounded[(size_t)row * p->y_stride + c]);
        }
        for (uint32_t c = p->of.n; c < p->y_stride; c++)
            assert_int_equal(float_bits(y[c]), 0xFFFFFFFFu);
    }
    if (largest > 1e-6) fail_msg("%u x %u x %u: %g", p->of.m, p->of.n, p->of.k, largest);
}

TEST(products_agree_with_exact_ones) {
    static const struct shape_of shapes[] = {
        {1, 64, 64, 1}, {7, 200, 200, 1}, {130, 129, 72, 1}, {65, 72, 128, 3}, {5, 8464, 40, 1}};
    uint64_t state = 31;
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (enum bf16_gemm_form form = 0; form < 2; form++) {
            struct product_of_bf16 p = make(&state, shapes[i], form);
            run(&p, false, p.of.m);
            run(&p, true, p.of.m);
            check_all(&p);
            discard(&p);
        }
}

TEST(a_row_alone_has_the_bits_it_has_among_others) {
    uint64_t state = 32;
    for (enum bf16_gemm_form form = 0; form < 2; form++) {
        struct product_of_bf16 p = make(&state, (struct shape_of){100, 136, 200, 1}, form), one;
        run(&p, false, p.of.m);
        for (uint32_t row = 0; row < p.of.m; row += 33) {
            one = p;
            one.of.m = 1;
            one.x = p.x + (size_t)row * p.x_stride;
            one.y = device_new(p.y_stride * sizeof(float), "y of one row");
            describe(&one);
            run(&one, false, 1);
            assert_memory_equal(one.y, p.y + (size_t)row * p.y_stride, p.of.n * sizeof(float));
            device_free(one.y);
        }
        discard(&p);
    }
}

TEST(no_schedule_shows_a_fault) {
    uint64_t state = 33;
    struct product_of_bf16 p =
        make(&state, (struct shape_of){70, 130, 700, 2}, BF16_GEMM_ROWS_OF_N);
    size_t bytes = (size_t)p.of.batch * p.of.m * p.y_stride * sizeof(float);
    float *first = malloc(bytes);
    for (uint32_t seed = 0; seed < device_seeds(); seed++) {
        emulate_seed(seed);
        run(&p, false, p.of.m);
        if (!seed) memcpy(first, p.y, bytes);
        assert_memory_equal(first, p.y, bytes);
    }
    free(first);
    discard(&p);
}

/* Two matrices in slots, 140 rows: the groups' rows have the bits of products of their own. */
TEST(groups_are_products_of_their_own) {
    static const struct row_group groups[] = {{0, 3, 1}, {3, 0, 0}, {3, 131, 0}, {134, 5, 1}};
    uint64_t state = 34;
    struct product_of_bf16 p =
        make(&state, (struct shape_of){140, 256, 136, 1}, BF16_GEMM_ROWS_OF_K);
    size_t bytes = (size_t)p.of.m * p.y_stride * sizeof(float);
    uint32_t half = p.of.n / 2;
    struct row_group *on_device = device_new_copy(groups, sizeof groups, "groups");
    float *whole = malloc(bytes);
    struct emulate_report report = {0};
    struct bf16_gemm_output y = {.values = p.y, .row_stride = p.y_stride};
    run(&p, false, p.of.m);
    memcpy(whole, p.y, bytes);
    memset(p.y, 0xFF, bytes);
    assert_true(bf16_gemm_make_weights(&p.made, p.weights, p.form, p.w_stride * 2,
                                       (uint64_t)p.w_stride * half * 2, half, p.of.k, 2));
    emulate_collect(&report);
    bf16_gemm_run_groups(NULL, &p.made, &p.rows, on_device, 4, p.of.m, &y);
    emulate_collect(NULL);
    device_check(&report);
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t k = 0; k < groups[i].row_count; k++) {
            size_t row = groups[i].first_row + k;
            assert_memory_equal(p.y + row * p.y_stride,
                                whole + row * p.y_stride + groups[i].slot * half,
                                half * sizeof(float));
        }
    assert_int_equal(float_bits(p.y[139 * p.y_stride]), 0xFFFFFFFFu);
    assert_int_equal(float_bits(p.y[half]), 0xFFFFFFFFu);
    free(whole);
    device_free(on_device);
    discard(&p);
}
