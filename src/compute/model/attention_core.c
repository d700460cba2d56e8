/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/model/attention_core.h"

#include <math.h>
#include <string.h>

struct kv_span attention_core_span(const struct pass *pass, const struct run *run, uint32_t block,
                                   uint32_t end) {
    uint32_t start = block * KV_BLOCK_TOKENS;
    uint32_t first = run->kv_shift > start ? run->kv_shift - start : 0;
    uint32_t last = end - start < KV_BLOCK_TOKENS ? end - start : KV_BLOCK_TOKENS;
    return (struct kv_span){
        .slice = kv_pages_slice(&pass->model->kv, run->pages[block].index, pass->layer),
        .start = start + first,
        .first = first,
        .count = last > first ? last - first : 0,
    };
}

void attention_core_load(const struct model *model, const struct kv_span *span, float *rows) {
    const char *from = (const char *)span->slice + span->first * model->kv.row_bytes;
    if (model->kv.element == KV_ELEMENT_F32)
        memcpy(rows, from, span->count * model->kv.row_bytes);
    else
        model->kernels->float_from_bf16(rows, (const uint16_t *)(const void *)from,
                                        span->count * model->kv.width);
}

void attention_core_softmax(const struct kernels *kernels, float *scores, uint32_t count,
                            float scale, float *max, float *sum, float *factor_out) {
    float block_max = kernels->maximum(scores, count);
    float new_max = block_max > *max ? block_max : *max;
    float factor = *max == -INFINITY ? 0 : kernels_exp((*max - new_max) * scale);
    *sum = *sum * factor + kernels->exp_sum(scores, scores, scale, new_max * scale, count);
    *max = new_max;
    *factor_out = factor;
}
