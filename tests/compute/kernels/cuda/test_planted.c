/* SPDX-License-Identifier: Apache-2.0
 * Protects the emulator's checks and the kernels' tests: each bug of planted.txt, planted in a copy of a
 * kernel, is found within 20 seeds by a check that the table names for it, and the report names a
 * place. `numbers`: the bits differ from the kernel's own.
 */
#include "products.h"

#include <stdio.h>
#include <stdlib.h>

#include "compute/kernels/cuda/row_kernels.h"

#include "planted.inc"

#define SEEDS 20

struct planted {
    const char *name, *checks;
    __typeof__(fp8_gemm_run) *product;
    __typeof__(row_kernels_norm) *norm;
};

/* What stands in for the kernel's output. */
struct outcome {
    struct emulate_report report;
    const void *output;
    size_t bytes;
};

typedef struct outcome run_planted(const struct planted *planted);

static struct product product;

static struct outcome run_product(const struct planted *planted) {
    struct outcome outcome = {.output = product.y,
                              .bytes = (size_t)product.m * product.y_stride * sizeof(float)};
    product_poison(&product);
    emulate_collect(&outcome.report);
    (planted ? planted->product : fp8_gemm_run)(NULL, &product.weights, &product.rows, product.y,
                                                product.y_stride, product.m);
    emulate_collect(NULL);
    return outcome;
}

#define NORM_ROWS 3u
#define NORM_LENGTH 515u
#define NORM_STRIDE 516u

static struct norm {
    float *x, *add, *weight, *scales;
    uint8_t *codes;
} norm;

static struct outcome run_norm(const struct planted *planted) {
    struct outcome outcome = {.output = norm.codes, .bytes = NORM_ROWS * NORM_STRIDE};
    struct row_output outputs[2] = {{.codes = norm.codes,
                                     .code_stride = NORM_STRIDE,
                                     .scales = norm.scales,
                                     .scale_stride = 4}};
    memset(norm.codes, 0xFF, outcome.bytes);
    emulate_collect(&outcome.report);
    (planted ? planted->norm : row_kernels_norm)(NULL, norm.x, NORM_STRIDE, NULL, 0, norm.weight,
                                                 1e-6f, outputs, NORM_ROWS, NORM_LENGTH);
    emulate_collect(NULL);
    return outcome;
}

#define ROW(bug, checks) __typeof__(fp8_gemm_run) planted_##bug##_fp8_gemm_run;
PLANTED_fp8_gemm(ROW)
#undef ROW
#define ROW(bug, checks) __typeof__(row_kernels_norm) planted_##bug##_row_kernels_norm;
    PLANTED_row_kernels(ROW)
#undef ROW

        static const struct planted products[] = {
#define ROW(bug, checks) {#bug, checks, planted_##bug##_fp8_gemm_run, NULL},
            PLANTED_fp8_gemm(ROW)
#undef ROW
};
static const struct planted norms[] = {
#define ROW(bug, checks) {#bug, checks, NULL, planted_##bug##_row_kernels_norm},
    PLANTED_row_kernels(ROW)
#undef ROW
};

static bool is_named(const char *checks, const char *check) {
    size_t length = strlen(check);
    for (const char *at = checks; (at = strstr(at, check)); at += length)
        if ((at == checks || at[-1] == ',') && (!at[length] || at[length] == ',')) return true;
    return false;
}

/* Within some seeds, something is found. */
static void look_for(const struct planted *planted, run_planted *run, const void *expected) {
    for (uint32_t seed = 0; seed < SEEDS; seed++) {
        emulate_seed(seed);
        struct outcome outcome = run(planted);
        bool differs = !outcome.report.made && memcmp(expected, outcome.output, outcome.bytes);
        if (!outcome.report.made && !differs) continue;
        const char *found = differs ? "numbers" : emulate_check_name(outcome.report.check);
        print_message("# %s: %s, seed %u: %s\n", planted->name, found, seed,
                      differs ? "the output differs" : outcome.report.text);
        if (!is_named(planted->checks, found))
            fail_msg("%s: found by %s, expected %s", planted->name, found, planted->checks);
        return;
    }
    fail_msg("%s: nothing found in %u seeds", planted->name, SEEDS);
}

static void look_for_all(const struct planted *planted, size_t count, run_planted *run) {
    struct outcome outcome = run(NULL);
    device_check(&outcome.report);
    void *expected = malloc(outcome.bytes);
    memcpy(expected, outcome.output, outcome.bytes);
    for (size_t i = 0; i < count; i++)
        look_for(&planted[i], run, expected);
    free(expected);
}

static void bugs_of_the_fp8_product_are_found(void **context) {
    uint64_t state = 11;
    product = product_make(&state, 70, 200, 1100, WEIGHTS_RANDOM, NUMBERS_NORMAL);
    look_for_all(products, sizeof products / sizeof *products, run_product);
    product_free(&product);
}

static void bugs_of_the_norm_are_found(void **context) {
    uint64_t state = 12;
    norm.x = device_new(NORM_ROWS * NORM_STRIDE * sizeof(float), "x");
    norm.weight = device_new(NORM_LENGTH * sizeof(float), "weight");
    norm.codes = device_new(NORM_ROWS * NORM_STRIDE, "codes");
    norm.scales = device_new(5 * 4 * sizeof(float), "scales");
    levels_fill(&state, NUMBERS_NORMAL, norm.x, NORM_ROWS * NORM_STRIDE);
    levels_fill(&state, NUMBERS_NORMAL, norm.weight, NORM_LENGTH);
    look_for_all(norms, sizeof norms / sizeof *norms, run_norm);
    device_free(norm.x);
    device_free(norm.weight);
    device_free(norm.codes);
    device_free(norm.scales);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bugs_of_the_fp8_product_are_found),
        cmocka_unit_test(bugs_of_the_norm_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
