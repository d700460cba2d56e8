/* SPDX-License-Identifier: Apache-2.0
 * Protects the choice of a level: names, what each table says of itself, and refusals with a cure.
 */
#include "test_case.h"

#include "levels.h"

#include "base/check.h"

TEST(each_level_is_found_by_its_name) {
    static const char *const names[KERNEL_LEVEL_COUNT] = {"c",   "avx2", "avx512",  "avx512bf16",
                                                          "amx", "neon", "neonbf16"};
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

TEST(each_table_is_whole_and_says_what_it_is) {
    static const char *const numerics[KERNEL_LEVEL_COUNT] = {[KERNEL_LEVEL_AVX512BF16] = "bf16dot3",
                                                             [KERNEL_LEVEL_AMX] = "amx3",
                                                             [KERNEL_LEVEL_NEONBF16] = "bfdot2"};
    for (int i = 0; i < KERNEL_LEVEL_COUNT; i++) {
        const struct kernels *table = NULL;
        struct error error = {""};
        enum status status = kernels_select((enum kernel_level)i, &table, &error);
        if (!kernels_has((enum kernel_level)i)) {
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
        bool pairs = numerics[i] != NULL;
        assert_string_equal(table->numerics, pairs ? numerics[i] : "fma1");
        for (const char *entry = (const char *)&table->matmul;
             entry < (const char *)&table->gemm_bf16; entry += sizeof(void *))
            assert_non_null(*(void *const *)(const void *)entry);
        assert_int_equal(table->gemm_bf16 != NULL, pairs);
        assert_int_equal(table->softmax_bf16 != NULL, pairs);
    }
}

#if defined(__x86_64__)
#define ON_X86 true
#define ON_ARM false
#elif defined(__aarch64__)
#define ON_X86 false
#define ON_ARM true
#else
#define ON_X86 false
#define ON_ARM false
#endif

static const struct {
    const char *name;
    bool ours;
} of_machines[] = {{"avx2", ON_X86}, {"avx512", ON_X86}, {"avx512bf16", ON_X86},
                   {"amx", ON_X86},  {"neon", ON_ARM},   {"neonbf16", ON_ARM}};

TEST(a_cpu_has_no_level_of_another_machine) {
    assert_true(kernels_has(KERNEL_LEVEL_C) && kernels_has(kernels_detect()));
    assert_int_equal(kernels_has(KERNEL_LEVEL_NEON), ON_ARM); /* every arm64 CPU has it */
    for (size_t i = 0; i < ARRAY_COUNT(of_machines); i++) {
        enum kernel_level level;
        assert_int_equal(kernels_level_named(of_machines[i].name, &level, NULL), STATUS_OK);
        assert_true(of_machines[i].ours || !kernels_has(level));
    }
    const struct kernels *fma1;
    assert_int_equal(kernels_select(kernels_detect_fma1(), &fma1, NULL), STATUS_OK);
    assert_string_equal(fma1->numerics, "fma1");
}

/* A mask lowers the level; on a CPU that lacks the one it names it stands for the best; what no CPU
 * of this machine's kind could have is refused. */
TEST(a_mask_never_raises_the_level) {
    enum kernel_level level, best = kernels_detect();
    struct error error = {""};
    assert_int_equal(kernels_level_masked("auto", &level, &error), STATUS_OK);
    assert_int_equal(level, best);
    assert_int_equal(kernels_level_masked("c", &level, &error), STATUS_OK);
    assert_int_equal(level, KERNEL_LEVEL_C);
    for (size_t i = 0; i < ARRAY_COUNT(of_machines); i++) {
        enum status status = kernels_level_masked(of_machines[i].name, &level, &error);
        assert_int_equal(status, of_machines[i].ours ? STATUS_OK : STATUS_UNSUPPORTED);
        if (of_machines[i].ours)
            assert_true(level <= best && kernels_has(level));
        else
            assert_non_null(strstr(error.text, of_machines[i].name));
    }
    assert_int_equal(kernels_level_masked("sse9", &level, &error), STATUS_INVALID);
}
