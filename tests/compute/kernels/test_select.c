/* SPDX-License-Identifier: Apache-2.0
 * Protects the choice of a level: names, what each table says of itself, and refusals with a cure.
 */
#include "levels.h"

#include <string.h>

static void each_level_is_found_by_its_name(void **unused) {
    static const char *const names[KERNEL_LEVEL_COUNT] = {"c", "avx2", "avx512", "avx512bf16"};
    enum kernel_level level;
    struct error error;
    for (int i = 0; i < KERNEL_LEVEL_COUNT; i++) {
        assert_int_equal(kernels_level_named(names[i], &level, &error), STATUS_OK);
        assert_int_equal(level, i);
    }
    assert_int_equal(kernels_level_named("auto", &level, &error), STATUS_OK);
    assert_int_equal(level, kernels_detect());
    assert_int_equal(kernels_level_named("sse9", &level, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "sse9"));
    assert_non_null(strstr(error.text, "avx512bf16"));
}

static void each_table_is_whole_and_says_what_it_is(void **unused) {
    enum kernel_level best = kernels_detect();
    for (int i = 0; i < KERNEL_LEVEL_COUNT; i++) {
        const struct kernels *table = NULL;
        struct error error = {""};
        enum status status = kernels_select((enum kernel_level)i, &table, &error);
        if (i > (int)best) {
            assert_int_equal(status, STATUS_UNSUPPORTED);
            assert_null(table);
            assert_non_null(strstr(error.text, "auto"));
            continue;
        }
        enum kernel_level named;
        assert_int_equal(status, STATUS_OK);
        assert_int_equal(table->level, i);
        assert_int_equal(kernels_level_named(table->name, &named, NULL), STATUS_OK);
        assert_int_equal(named, i);
        assert_string_equal(table->numerics, i == KERNEL_LEVEL_AVX512BF16 ? "bf16dot2" : "fma1");
        for (const char *entry = (const char *)&table->matmul;
             entry < (const char *)&table->gemm_bf16; entry += sizeof(void *))
            assert_non_null(*(void *const *)(const void *)entry);
        assert_int_equal(table->gemm_bf16 != NULL, i == KERNEL_LEVEL_AVX512BF16);
        assert_int_equal(table->softmax_bf16 != NULL, i == KERNEL_LEVEL_AVX512BF16);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_level_is_found_by_its_name),
        cmocka_unit_test(each_table_is_whole_and_says_what_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
