/* SPDX-License-Identifier: Apache-2.0
 * Which levels this CPU has. __builtin_cpu_supports also asks the operating system (XGETBV) whether
 * it keeps the wide registers, so a level it names can be used. On arm64 the kernel itself says
 * what programs may use (AT_HWCAP).
 */
#include "compute/kernels/tables.h"

#if defined(FATHOM_KERNELS_X86)
#include <asm/prctl.h>
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(FATHOM_KERNELS_ARM)
#include <sys/auxv.h>
#endif

#include "base/check.h"

static const char *const level_names[KERNEL_LEVEL_COUNT] = {"c",   "avx2", "avx512",  "avx512bf16",
                                                            "amx", "neon", "neonbf16"};

/* NULL: of another machine. */
static const struct kernels *const tables[KERNEL_LEVEL_COUNT] = {
    [KERNEL_LEVEL_C] = &kernels_table_c,
#if defined(FATHOM_KERNELS_X86)
    [KERNEL_LEVEL_AVX2] = &kernels_table_avx2,
    [KERNEL_LEVEL_AVX512] = &kernels_table_avx512,
    [KERNEL_LEVEL_AVX512BF16] = &kernels_table_avx512bf16,
    [KERNEL_LEVEL_AMX] = &kernels_table_amx,
#elif defined(FATHOM_KERNELS_ARM)
    [KERNEL_LEVEL_NEON] = &kernels_table_neon,
    [KERNEL_LEVEL_NEONBF16] = &kernels_table_neonbf16,
#endif
};

#if defined(FATHOM_KERNELS_X86)
static bool cpu_has_f16c(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool cpu_has_avx512bf16(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 5);
}

#define XFEATURE_XTILEDATA 18

/* The kernel keeps tiles of a process that has asked for it (Documentation/arch/x86/xstate.rst). */
static bool cpu_has_amx(void) {
    unsigned a, b, c, d;
    const unsigned bf16 = 1u << 22, tiles = 1u << 24, gfni = 1u << 8;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    if (~d & (bf16 | tiles) || ~c & gfni) return false;
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

enum kernel_level kernels_detect(void) {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !cpu_has_f16c())
        return KERNEL_LEVEL_C;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
        return KERNEL_LEVEL_AVX2;
    if (!cpu_has_avx512bf16() || !__builtin_cpu_supports("avx512vbmi")) return KERNEL_LEVEL_AVX512;
    return cpu_has_amx() ? KERNEL_LEVEL_AMX : KERNEL_LEVEL_AVX512BF16;
}
#elif defined(FATHOM_KERNELS_ARM)
enum kernel_level kernels_detect(void) {
    if (!(getauxval(AT_HWCAP) & HWCAP_ASIMD)) return KERNEL_LEVEL_C;
    return getauxval(AT_HWCAP2) & HWCAP2_BF16 ? KERNEL_LEVEL_NEONBF16 : KERNEL_LEVEL_NEON;
}
#else
enum kernel_level kernels_detect(void) {
    return KERNEL_LEVEL_C;
}
#endif

bool kernels_has(enum kernel_level level) {
    return level <= kernels_detect() && tables[level];
}

enum kernel_level kernels_detect_fma1(void) {
    enum kernel_level level = kernels_detect();
    while (!tables[level] || tables[level]->gemm_bf16)
        level--;
    return level;
}

enum status kernels_level_named(const char *name, enum kernel_level *level_out,
                                struct error *error) {
    if (!strcmp(name, "auto")) {
        *level_out = kernels_detect();
        return STATUS_OK;
    }
    for (int level = 0; level < KERNEL_LEVEL_COUNT; level++)
        if (!strcmp(name, level_names[level])) {
            *level_out = (enum kernel_level)level;
            return STATUS_OK;
        }
    return error_set(error, STATUS_INVALID,
                     "no kernel level named '%s': expected one of " KERNEL_LEVEL_CHOICES, name);
}

static enum status refuse(enum kernel_level level, struct error *error) {
    return error_set(
        error, STATUS_UNSUPPORTED,
        "this CPU does not support kernel level '%s'; its best is '%s': use that, or auto",
        level_names[level], level_names[kernels_detect()]);
}

enum status kernels_level_masked(const char *mask, enum kernel_level *level_out,
                                 struct error *error) {
    enum kernel_level level, best = kernels_detect();
    enum status status = kernels_level_named(mask, &level, error);
    if (status != STATUS_OK) return status;
    if (!tables[level]) return refuse(level, error);
    *level_out = level < best ? level : best;
    return STATUS_OK;
}

enum status kernels_select(enum kernel_level level, const struct kernels **kernels_out,
                           struct error *error) {
    check(level < KERNEL_LEVEL_COUNT);
    if (!kernels_has(level)) return refuse(level, error);
    *kernels_out = tables[level];
    return STATUS_OK;
}
