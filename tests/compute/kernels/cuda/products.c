/* SPDX-License-Identifier: Apache-2.0 */
#include "products.h"

#include <stdlib.h>

#include "base/number.h"

static void *pitched(const uint8_t *rows, uint32_t count, uint32_t bytes, uint32_t pitch,
                     const char *name) {
    uint8_t *memory = device_new((size_t)count * pitch, name);
    for (uint32_t i = 0; i < count; i++)
        memcpy(memory + (size_t)i * pitch, rows + (size_t)i * bytes, bytes);
    return memory;
}

void product_load_rows(struct product *p) {
    uint8_t *codes = malloc((size_t)p->m * p->k);
    uint32_t stride = (uint32_t)round_up(p->m, 4), pitch = (uint32_t)round_up(p->k, 16);
    p->x_scales = device_new((size_t)p->blocks * stride * sizeof(float), "x scales");
    for (uint32_t row = 0; row < p->m; row++) {
        for (uint32_t k = 0; k < p->k; k++)
            codes[(size_t)row * p->k + k] =
                e4m3_from_float(p->problem.x[row * p->problem.x_stride + k]);
        for (uint32_t b = 0; b < p->blocks; b++)
            p->x_scales[(size_t)b * stride + row] =
                p->problem.x_scales[row * p->problem.x_scale_stride + b];
    }
    p->x = pitched(codes, p->m, p->k, pitch, "x");
    free(codes);
    assert_true(fp8_gemm_make_rows(&p->rows, p->x, pitch, p->x_scales, stride, p->m, p->k));
}

struct product product_make(uint64_t *state, uint32_t m, uint32_t n, uint32_t k,
                            enum weight_kind kind, enum numbers numbers) {
    struct product p = {.m = m, .n = n, .k = k, .blocks = (uint32_t)divide_up(k, QUANT_GROUP)};
    uint32_t pitch = (uint32_t)round_up(k, 16);
    p.problem = problem_make(state, WEIGHT_FP8, m, n, k, kind, numbers, 2);
    p.codes = pitched(p.problem.raw, n, k, pitch, "weights");
    p.weight_scales = device_new_copy(
        p.problem.scales, divide_up(n, QUANT_GROUP) * p.blocks * sizeof(float), "weight scales");
    p.y_stride = (uint32_t)round_up(n, 2) + 2;
    p.y = device_new((size_t)m * p.y_stride * sizeof(float), "y");
    assert_true(fp8_gemm_make_weights(&p.weights, p.codes, pitch, (uint64_t)pitch * n,
                                      p.weight_scales, 0, n, k, 1));
    product_load_rows(&p);
    return p;
}

void product_free(struct product *p) {
    device_free(p->codes);
    device_free(p->x);
    device_free(p->weight_scales);
    device_free(p->x_scales);
    device_free(p->y);
    problem_free(&p->problem);
}

void product_poison(struct product *p) {
    memset(p->y, 0xFF, (size_t)p->m * p->y_stride * sizeof(float));
}
