/* SPDX-License-Identifier: Apache-2.0 */
#include "levels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/number.h"
#include "compute/kernels/tables.h"

#define FENCE 0xA5
#define FENCE_BYTES 256

#ifdef FATHOM_KERNELS_X86
void matmul_avx512bf16_emulated_run(const struct matmul *job, uint32_t panel_first,
                                    uint32_t panel_count);
void gemm_avx512bf16_emulated_run(const struct gemm_bf16 *job);
void matmul_amx_emulated_run(const struct matmul *job, uint32_t panel_first, uint32_t panel_count);
void gemm_amx_emulated_run(const struct gemm_bf16 *job);
float softmax_avx512bf16_emulated_run(uint16_t *weights, const float *scores, uint32_t count,
                                      float a, float *max, float *sum);
#endif

uint32_t levels_list(struct kernels levels_out[LEVELS_MAX]) {
    uint32_t count = 0;
    for (int level = 0; level < KERNEL_LEVEL_COUNT; level++) {
        const struct kernels *table;
        if (!kernels_has((enum kernel_level)level)) continue;
        assert_int_equal(kernels_select((enum kernel_level)level, &table, NULL), STATUS_OK);
        levels_out[count++] = *table;
    }
#ifdef FATHOM_KERNELS_X86
    if (kernels_has(KERNEL_LEVEL_AVX512)) {
        levels_out[count] = kernels_table_avx512bf16;
        levels_out[count].name = "avx512bf16-emulated";
        levels_out[count].matmul = matmul_avx512bf16_emulated_run;
        levels_out[count].softmax_bf16 = softmax_avx512bf16_emulated_run;
        levels_out[count++].gemm_bf16 = gemm_avx512bf16_emulated_run;
        levels_out[count] = kernels_table_amx;
        levels_out[count].name = "amx-emulated";
        levels_out[count].matmul = matmul_amx_emulated_run;
        levels_out[count].softmax_bf16 = softmax_avx512bf16_emulated_run;
        levels_out[count++].gemm_bf16 = gemm_amx_emulated_run;
    }
#endif
    return count;
}

const struct kernels *levels_simulator(const struct kernels *level) {
    static const struct kernels bf16_dot = {.gemm_bf16 = matmul_c_gemm_bf16_c_run};
    static const struct kernels bfdot = {.matmul = matmul_c_bfdot_c_run,
                                         .gemm_bf16 = matmul_c_gemm_bfdot_c_run};
    static const struct kernels amx = {.matmul = matmul_c_amx_c_run,
                                       .gemm_bf16 = matmul_c_gemm_amx_c_run};
    return strcmp(level->numerics, "bfdot2") == 0 ? &bfdot
           : strcmp(level->numerics, "amx3") == 0 ? &amx
                                                  : &bf16_dot;
}

static size_t mapped_bytes(size_t bytes) {
    return round_up(bytes + FENCE_BYTES, (size_t)sysconf(_SC_PAGESIZE));
}

void *levels_buffer(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), mapped = mapped_bytes(bytes);
    char *base =
        mmap(NULL, mapped + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(base != MAP_FAILED);
    check(mprotect(base + mapped, page, PROT_NONE) == 0);
    memset(base, FENCE, mapped);
    return base + mapped - bytes;
}

void levels_free(void *buffer, size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), mapped = mapped_bytes(bytes);
    unsigned char *base = (unsigned char *)buffer + bytes - mapped;
    for (size_t i = 0; i < mapped - bytes; i++)
        if (base[i] != FENCE)
            fail_msg("a byte %zu in front of a buffer was written", mapped - bytes - i);
    munmap(base, mapped + page);
}

uint32_t levels_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)(z >> 32);
}

static float uniform(uint64_t *state) {
    return (float)((double)levels_random(state) * 0x1p-31 - 1);
}

float levels_number(uint64_t *state, enum numbers kind) {
    float u = uniform(state), v = uniform(state) + uniform(state) + u;
    switch (kind) {
    case NUMBERS_NORMAL:
        return v;
    case NUMBERS_ZERO:
        return levels_random(state) & 1 ? 0.0f : -0.0f;
    case NUMBERS_LARGE:
        return v * 1e12f;
    case NUMBERS_TINY:
        return v * 0x1p-126f * (levels_random(state) & 1 ? 1.0f : 64.0f);
    default:
        return ldexpf(v, (int)(levels_random(state) % 80) - 40);
    }
}

void levels_fill(uint64_t *state, enum numbers kind, float *out, size_t count) {
    for (size_t i = 0; i < count; i++)
        out[i] = levels_number(state, kind);
}

void levels_check_same(const char *what, const float *expected, const float *found, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (float_bits(expected[i]) != float_bits(found[i]) &&
            !(isnan(expected[i]) && isnan(found[i])))
            fail_msg("%s: element %zu is %.9g (%08x), expected %.9g (%08x)", what, i,
                     (double)found[i], float_bits(found[i]), (double)expected[i],
                     float_bits(expected[i]));
}
