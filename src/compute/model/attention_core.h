/* SPDX-License-Identifier: Apache-2.0
 * What both forms of core attention share: KV rows read back from pages, and the online softmax.
 */
#pragma once

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

/* KV blocks of a run that are attended to at once: their scores become weights relative to one
 * maximum. */
struct core_chunk {
    struct kv_span spans[CORE_BLOCKS_MAX];
    uint32_t count, rows; /* spans, and rows of all of them */
    bool is_first;        /* the caller's: nothing has been gathered before */
    /* BF16: where each span's rows begin; and pages of the next chunk, at least as many. */
    const uint16_t *pieces[CORE_BLOCKS_MAX];
    const uint16_t *ahead[CORE_BLOCKS_MAX];
    uint32_t ahead_rows; /* of the next chunk's pages; 0: there is none */
};

/* How many blocks a chunk has at most. */
uint32_t attention_core_blocks(const struct model *model);
/* The chunk that begins with `block`: up to the next multiple of attention_core_blocks, so that
 * borders depend on positions alone. A block with first rows that no token attends to is a chunk by
 * itself; all other spans are contiguous. `end` as above. */
void attention_core_chunk(const struct pass *pass, const struct run *run, uint32_t block,
                          uint32_t end, struct core_chunk *chunk);

/* The span's rows as floats. */
void attention_core_load(const struct model *model, const struct kv_span *span,
                         float *rows /* [count][kv_width] */);

/* The online softmax over one more block's scores: each score s becomes
 * exp(scale * s - scale * maximum), where *max is the largest so far. *sum follows; the caller
 * multiplies what it has gathered so far by *factor_out. */
void attention_core_softmax(const struct kernels *kernels, float *scores, uint32_t count,
                            float scale, float *max, float *sum, float *factor_out);
