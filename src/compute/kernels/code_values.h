/* SPDX-License-Identifier: Apache-2.0
 * Codes as the products' chain takes them. Of four bits: the integers that INT4's codes are worth,
 * and twice the values of E2M1's; Q4_K's are the codes themselves. E4M3: the value times 2^-8.
 * Private to src/compute/kernels.
 */
#pragma once

#include "base/number.h"
#include "compute/kernels/matmul.h"

static inline const int8_t *code_values_of(enum weight_type type) {
    static const int8_t int4[] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
    static const int8_t plain[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    static const int8_t e2m1[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    return type == WEIGHT_MXFP4 ? e2m1 : type == WEIGHT_Q4_K ? plain : int4;
}

/* A half-float of the same bits; the NaN codes are worth 480 and -480. */
static inline float code_values_of_e4m3(uint8_t code) {
    return float_from_f16((uint16_t)((code & 0x80u) << 8 | (code & 0x7Fu) << 7));
}
