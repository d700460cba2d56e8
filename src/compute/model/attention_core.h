/* SPDX-License-Identifier: Apache-2.0
 * What both forms of core attention share: KV rows read back from pages, and the online softmax.
 */
#ifndef COMPUTE_MODEL_ATTENTION_CORE_H
#define COMPUTE_MODEL_ATTENTION_CORE_H

#include "compute/model/pass.h"

/* A block of KV rows as a run sees it: rows [first, first + count) of the page. */
struct kv_span {
    const void *slice;
    uint32_t start; /* KV index of the span's first row */
    uint32_t first, count;
};
/* Block `block` of the run; `end`: one past the last KV index that is valid. */
struct kv_span attention_core_span(const struct pass *pass, const struct run *run, uint32_t block,
                                   uint32_t end);

/* The span's rows as floats. */
void attention_core_load(const struct model *model, const struct kv_span *span,
                         float *rows /* [count][kv_width] */);

/* Values of the span's first row where they are BF16. */
static inline const uint16_t *attention_core_values(const struct model *model,
                                                    const struct kv_span *span) {
    return (const uint16_t *)span->slice + (size_t)span->first * model->kv.width;
}

/* The online softmax over one more block's scores: each score s becomes
 * exp(scale * s - scale * maximum), where *max is the largest so far. *sum follows; the caller
 * multiplies what it has gathered so far by *factor_out. */
void attention_core_softmax(const struct kernels *kernels, float *scores, uint32_t count,
                            float scale, float *max, float *sum, float *factor_out);

#endif
