/* SPDX-License-Identifier: Apache-2.0
 * Protects how the device's kernels for Hopper, emulated, are given what the engine says: a norm for two
 * products leaves the reference body's bits in every pair of forms. Whole models are compared in
 * tests/golden.
 */
#include "../kernels/cuda/entries.h"

/* One norm for two products and itself, in all pairs of forms. */
static void a_norm_leaves_all_its_forms(void **state) {
    enum { N = 200, PITCH = 800, STRIDE = 8 };
    struct gpu_kernels hopper = gpu_hopper();
    for (uint32_t kinds = 0; kinds < 16; kinds++) {
        float *x = numbers((size_t)ROWS * N, "x"), *weight = numbers(N, "weight");
        struct output first = output_new((size_t)ROWS * PITCH, "first");
        struct output second = output_new((size_t)ROWS * PITCH, "second");
        struct output scales = output_new(4 * STRIDE * sizeof(float), "scales");
        struct output plain = output_new((size_t)ROWS * N * sizeof(float), "plain");
        for (uint32_t i = 0; i < 2; i++) {
            float *to = (float *)(void *)(i ? scales.found : scales.expected);
            struct gpu_prepare of = {.x = x,
                                     .weight = weight,
                                     .first = i ? first.found : first.expected,
                                     .first_scales = to,
                                     .second = i ? second.found : second.expected,
                                     .second_scales = to + 2 * STRIDE,
                                     .plain = (float *)(void *)(i ? plain.found : plain.expected),
                                     .first_form = {(enum input_kind)(kinds % 4), PITCH, STRIDE},
                                     .second_form = {(enum input_kind)(kinds / 4), PITCH, STRIDE},
                                     .x_stride = N,
                                     .plain_stride = N,
                                     .n = N,
                                     .rows = ROWS,
                                     .epsilon = 1e-6f};
            launch(i ? &hopper.prepare : &gpu_reference.prepare, &of);
        }
        output_check(&first, "the first product's rows");
        output_check(&second, "the second product's rows");
        output_check(&scales, "scales");
        output_check(&plain, "rows as they are");
        output_free(&first);
        output_free(&second);
        output_free(&scales);
        output_free(&plain);
        device_free(x);
        device_free(weight);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_norm_leaves_all_its_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
