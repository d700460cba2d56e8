/* SPDX-License-Identifier: Apache-2.0
 * Products by chance on a device, for tests of its kernels.
 */
#pragma once

#include "device.h"

#include "compute/kernels/cuda/fp8_gemm.h"

#include "../problems.h"

/* y[m][n] of codes x[m][k] and weights w[n][k], as the device has them and as the host. */
struct product {
    struct problem problem;
    uint32_t m, n, k, blocks, y_stride;
    void *codes, *x;
    float *weight_scales, *x_scales, *y;
    struct fp8_gemm_weights weights;
    struct fp8_gemm_rows rows;
};

struct product product_make(uint64_t *state, uint32_t m, uint32_t n, uint32_t k,
                            enum weight_kind kind, enum numbers numbers);
void product_free(struct product *p);
/* The problem's first m rows, newly on the device. */
void product_load_rows(struct product *p);
void product_poison(struct product *p);
