/* SPDX-License-Identifier: Apache-2.0
 * Codes of four bits as the products' chain takes them: the integers that INT4's codes are worth,
 * and twice the values of E2M1's. Private to src/compute/kernels.
 */
#pragma once

#include "compute/kernels/matmul.h"

static inline const int8_t *code_values_of(enum weight_type type) {
    static const int8_t int4[] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
    static const int8_t e2m1[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    return type == WEIGHT_MXFP4 ? e2m1 : int4;
}
