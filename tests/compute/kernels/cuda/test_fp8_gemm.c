/* SPDX-License-Identifier: Apache-2.0
 * Protects the FP8 products for GPUs, emulated: they agree with the plain C twin within what sums
 * of 13 bits may cost, and within rounding once sums are exact; a row's bits depend on no other
 * row; nothing but their output is written; and no schedule shows a fault.
 */
#include "test_case.h"

#include "products.h"

#include <math.h>

#include "base/number.h"
#include "compute/kernels/tables.h"

static void run(struct product *p, uint32_t m) {
    struct emulate_report report = {0};
    emulate_collect(&report);
    product_poison(p);
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

TEST(sums_agree_with_the_simulator) {
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

TEST(a_row_alone_has_the_bits_it_has_among_others) {
    uint64_t state = 8;
    struct product p = product_make(&state, 100, 136, 300, WEIGHTS_RANDOM, NUMBERS_NORMAL);
    run(&p, p.m);
    for (uint32_t row = 0; row < p.m; row += 33) {
        struct product one = p;
        one.problem.x += row * p.problem.x_stride;
        one.problem.x_scales += row * p.problem.x_scale_stride;
        one.m = 1;
        one.y = device_new(p.y_stride * sizeof(float), "y of one row");
        product_load_rows(&one);
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

TEST(no_schedule_shows_a_fault) {
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

/* Two matrices in slots, 140 rows: the groups' rows have the bits of products of their own. */
TEST(groups_are_products_of_their_own) {
    uint64_t state = 10;
    struct product p = product_make(&state, 140, 256, 260, WEIGHTS_RANDOM, NUMBERS_NORMAL);
    static const struct row_group groups[] = {{0, 3, 1}, {3, 0, 0}, {3, 131, 0}, {134, 5, 1}};
    uint32_t pitch = (uint32_t)round_up(p.k, 16), half = p.n / 2;
    struct row_group *on_device = device_new_copy(groups, sizeof groups, "groups");
    run(&p, p.m);
    float *whole = malloc((size_t)p.m * p.y_stride * sizeof *whole);
    memcpy(whole, p.y, (size_t)p.m * p.y_stride * sizeof *whole);
    assert_true(fp8_gemm_make_weights(&p.weights, p.codes, pitch, (uint64_t)pitch * half,
                                      p.weight_scales, p.blocks, half, p.k, 2));
    product_poison(&p);
    struct emulate_report report = {0};
    emulate_collect(&report);
    fp8_gemm_run_groups(NULL, &p.weights, &p.rows, on_device, 4, p.m, p.y, p.y_stride);
    emulate_collect(NULL);
    device_check(&report);
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t row = groups[i].first_row; row < groups[i].first_row + groups[i].row_count;
             row++)
            assert_memory_equal(p.y + (size_t)row * p.y_stride,
                                whole + (size_t)row * p.y_stride + groups[i].slot * half,
                                half * sizeof(float));
    assert_int_equal(float_bits(p.y[139 * p.y_stride]), 0xFFFFFFFFu);
    assert_int_equal(float_bits(p.y[half]), 0xFFFFFFFFu);
    free(whole);
    device_free(on_device);
    product_free(&p);
}

TEST(results_are_rounded_where_it_is_asked_for) {
    uint64_t state = 12;
    struct product p = product_make(&state, 70, 130, 140, WEIGHTS_RANDOM, NUMBERS_NORMAL);
    size_t count = (size_t)p.m * p.y_stride;
    uint16_t *rounded = device_new(count * sizeof *rounded, "rounded y");
    struct emulate_report report = {0};
    run(&p, p.m);
    emulate_collect(&report);
    fp8_gemm_run_rounded(NULL, &p.weights, &p.rows, rounded, p.y_stride, p.m);
    emulate_collect(NULL);
    device_check(&report);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(rounded[i], i % p.y_stride < p.n ? bf16_from_float(p.y[i]) : UINT16_MAX);
    device_free(rounded);
    product_free(&p);
}
