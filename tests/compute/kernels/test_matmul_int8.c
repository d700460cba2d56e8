/* SPDX-License-Identifier: Apache-2.0
 * Protects products of INT8 values and codes of four bits: all instructions that compute them give
 * the bits of the plain C twin, those that this CPU lacks by emulation, near the exact product. The
 * same holds where every sum is as large as it can be, and in any batch.
 */
#include "test_case.h"

#include "problems.h"

#include <string.h>

#include "base/check.h"
#include "compute/kernels/tables.h"

#ifdef FATHOM_KERNELS_X86
void matmul_int8_avxvnni_emulated_run(const struct matmul *job, uint32_t panel_first,
                                      uint32_t panel_count);
void matmul_int8_avx512_emulated_run(const struct matmul *job, uint32_t panel_first,
                                     uint32_t panel_count);
void matmul_int8_amx_emulated_run(const struct matmul *job, uint32_t panel_first,
                                  uint32_t panel_count);
#endif

#define ALL_MAX (LEVELS_MAX + 4)

static const enum weight_type types[] = {WEIGHT_INT4_32, WEIGHT_INT4_128, WEIGHT_MXFP4};

static void add(struct kernels *all, uint32_t *count, const char *name,
                void (*matmul)(const struct matmul *, uint32_t, uint32_t)) {
    all[*count] = kernels_table_c;
    all[*count].name = name;
    all[(*count)++].matmul = matmul;
}

/* The levels of this CPU, and the instructions that they do not choose on it. */
static uint32_t list_all(struct kernels all[ALL_MAX]) {
    uint32_t count = levels_list(all);
#if defined(FATHOM_KERNELS_X86)
    add(all, &count, "avx512vnni-emulated", matmul_int8_avx512_emulated_run);
    add(all, &count, "amxint8-emulated", matmul_int8_amx_emulated_run);
    if (!kernels_has(KERNEL_LEVEL_AVX2)) return count;
    add(all, &count, "avxvnni-emulated", matmul_int8_avxvnni_emulated_run);
    add(all, &count, "maddubs", matmul_int8_avx2_run);
#elif defined(FATHOM_KERNELS_ARM)
    add(all, &count, "neon-without-dot", matmul_int8_neon_run);
#endif
    return count;
}

TEST(instructions_agree_for_every_shape) {
    static const uint32_t sizes[] = {1, 15, 17, 33, 96, 128, 129, 300};
    static const uint32_t rows[] = {1, 2, 3, 4, 5, 6, 7, 12, 13, 16, 25, 33, 170};
    struct kernels all[ALL_MAX];
    uint32_t count = list_all(all), turn = 0;
    uint64_t state = 31;
    for (size_t t = 0; t < ARRAY_COUNT(types); t++)
        for (size_t n = 0; n < ARRAY_COUNT(sizes); n++)
            for (size_t k = 0; k < ARRAY_COUNT(sizes); k++, turn++) {
                struct problem p =
                    problem_make(&state, types[t], rows[turn % ARRAY_COUNT(rows)], sizes[n],
                                 sizes[k], turn % 5 ? WEIGHTS_RANDOM : WEIGHTS_TINY,
                                 (enum numbers)(turn % NUMBERS_COUNT), PROBLEM_INT8);
                problem_check(&p, all, count);
                problem_free(&p);
            }
}

/* Codes and values of the largest size and of one sign, so that no sum may lose a bit. */
TEST(the_largest_sums_are_exact) {
    static const uint32_t words[] = {0, 0xFFFFFFFFu, 0x77777777u, 0x88888888u, 0xF7F7F7F7u};
    static const int8_t sizes[] = {127, -127};
    struct kernels all[ALL_MAX];
    uint32_t count = list_all(all);
    uint64_t state = 32;
    for (size_t t = 0; t < ARRAY_COUNT(types); t++)
        for (size_t w = 0; w < ARRAY_COUNT(words); w++)
            for (int s = 0; s < 2; s++) {
                struct problem p = problem_make(&state, types[t], 7, 64, 256, WEIGHTS_RANDOM,
                                                NUMBERS_NORMAL, PROBLEM_INT8);
                for (size_t i = 0; i < 64 * 256 / 8; i++)
                    ((uint32_t *)p.raw)[i] = words[w];
                matmul_pack(types[t], p.raw, 64, 256, 0, 64, p.data);
                memset(p.x_int8, sizes[s], p.x_block_bytes);
                for (size_t i = 0; i < 7 * 256; i++)
                    p.x[i] = sizes[s];
                problem_check(&p, all, count);
                problem_free(&p);
            }
}

TEST(a_row_does_not_depend_on_its_batch) {
    struct kernels all[ALL_MAX];
    uint32_t count = list_all(all);
    uint64_t state = 33;
    for (size_t t = 0; t < ARRAY_COUNT(types); t++) {
        struct problem p = problem_make(&state, types[t], 40, 300, 700, WEIGHTS_RANDOM,
                                        NUMBERS_NORMAL, PROBLEM_INT8);
        for (uint32_t l = 0; l < count; l++)
            problem_check_invariance(&all[l], &p, &state);
        problem_free(&p);
    }
}
