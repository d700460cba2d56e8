/* SPDX-License-Identifier: Apache-2.0
 * What the kernel tests share: every level this CPU can run, buffers that end at a page nobody may
 * touch, and adversarial numbers.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compute/kernels/kernels.h"

/* The levels of this CPU, lowest first, "c" included; on a CPU with AVX-512 the AVX-512-BF16 level
 * and AMX on emulated instructions ("avx512bf16-emulated", "amx-emulated") come last. */
#define LEVELS_MAX (KERNEL_LEVEL_COUNT + 2)
uint32_t levels_list(struct kernels levels_out[LEVELS_MAX]);

/* What states in plain C how a level with gemm_bf16 multiplies BF16 values: gemm_bf16, and matmul
 * unless it is NULL. */
const struct kernels *levels_simulator(const struct kernels *level);

/* `bytes` that end where an inaccessible page begins, 0xA5 in front of them. */
void *levels_buffer(size_t bytes);
/* Fails the test if what lies in front of a buffer was written; frees it. */
void levels_free(void *buffer, size_t bytes);

enum numbers {
    NUMBERS_NORMAL, /* about a normal distribution */
    NUMBERS_ZERO,   /* both zeros */
    NUMBERS_LARGE,
    NUMBERS_TINY,  /* subnormal floats among them */
    NUMBERS_MIXED, /* exponents all over the place */
    NUMBERS_COUNT
};

uint32_t levels_random(uint64_t *state);
float levels_number(uint64_t *state, enum numbers kind);
void levels_fill(uint64_t *state, enum numbers kind, float *out, size_t count);

/* Same bits, or both NaN. */
void levels_check_same(const char *what, const float *expected, const float *found, size_t count);
