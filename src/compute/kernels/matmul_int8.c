/* SPDX-License-Identifier: Apache-2.0
 * Which instructions multiply INT8 values at a level. All give the same bits, so that parts of an
 * instruction set which a level does not name may serve it.
 */
#include "compute/kernels/tables.h"

#include <stdatomic.h>

#if defined(FATHOM_KERNELS_X86)
#include <cpuid.h>

#define TILES_ROWS 8 /* with fewer rows most of a tile is idle */

enum { KNOWN = 1, HAS_AVX_VNNI = 2, HAS_AVX512_VNNI = 4, HAS_AMX_INT8 = 8 };

/* Asked once, as CPUID takes long under a hypervisor. Levels ask the operating system. */
static int features(void) {
    static atomic_int known;
    int found = atomic_load_explicit(&known, memory_order_relaxed);
    unsigned a, b, c, d;
    if (found) return found;
    found = KNOWN;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & 1u << 11)) {
        found |= HAS_AVX512_VNNI;
        if (d & 1u << 25) found |= HAS_AMX_INT8; /* its file is compiled for both */
    }
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4)) found |= HAS_AVX_VNNI;
    atomic_store_explicit(&known, found, memory_order_relaxed);
    return found;
}

void matmul_int8_run_256(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    if (features() & HAS_AVX_VNNI)
        matmul_int8_avxvnni_run(job, panel_first, panel_count);
    else
        matmul_int8_avx2_run(job, panel_first, panel_count);
}

void matmul_int8_run_512(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    if (features() & HAS_AVX512_VNNI)
        matmul_int8_avx512_run(job, panel_first, panel_count);
    else
        matmul_int8_run_256(job, panel_first, panel_count);
}

/* For the AMX level alone, which has asked the operating system for tiles. */
void matmul_int8_run_tiles(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    if (job->m >= TILES_ROWS && (features() & HAS_AMX_INT8))
        matmul_int8_amx_run(job, panel_first, panel_count);
    else
        matmul_int8_run_512(job, panel_first, panel_count);
}
#elif defined(FATHOM_KERNELS_ARM)
#include <sys/auxv.h>

void matmul_int8_run_128(const struct matmul *job, uint32_t panel_first, uint32_t panel_count) {
    if (getauxval(AT_HWCAP) & HWCAP_ASIMDDP)
        matmul_int8_neondot_run(job, panel_first, panel_count);
    else
        matmul_int8_neon_run(job, panel_first, panel_count);
}
#endif
