/* SPDX-License-Identifier: Apache-2.0
 * Code for both forms of core attention (expanded and absorbed MLA): reads KV rows from pages, and
 * computes the online softmax.
 */
#pragma once

#include "compute/model/pass.h"

/* The KV rows of one block that belong to a run: rows [first, first + count) of the page. */
struct kv_span {
    const void *slice;
    uint32_t start; /* KV index of the span's first row */
    uint32_t first, count;
};
/* The row of a KV group that has the KV index `index` of the run, and a batch's token's own row. */
void *attention_core_row(const struct pass *pass, const struct run *run, uint32_t index,
                         uint32_t group);
void *attention_core_own_row(const struct pass *pass, uint32_t token, uint32_t group);

/* Block `block` of the run; `end`: one past the last KV index that is valid. */
struct kv_span attention_core_span(const struct pass *pass, const struct run *run, uint32_t block,
                                   uint32_t end);

/* KV blocks of a run that are attended to at once: the softmax takes one maximum for all of
 * them. */
struct core_chunk {
    struct kv_span spans[CORE_BLOCKS_MAX];
    uint32_t count, rows; /* spans, and rows of all of them */
    bool is_first;        /* no chunk with rows came before it */
    /* BF16: the start of each span's rows. Room for at least as many pages of the next chunk. */
    const uint16_t *pieces[CORE_BLOCKS_MAX];
    const float *floats; /* the rows of the only span, if they are floats; else NULL */
    const uint16_t *ahead[CORE_BLOCKS_MAX];
    uint32_t ahead_rows; /* rows of the next chunk; 0: there is none */
};

/* The most blocks of a chunk. */
uint32_t attention_core_blocks(const struct model *model);

/* A walk over the chunks that the tokens [first, last) of a run attend to. A chunk ends before the
 * next multiple of attention_core_blocks, so that chunk borders depend on positions alone. If no
 * token attends to the first rows of a block, that block is a chunk of its own. All other spans are
 * contiguous. */
struct core_walk {
    const struct pass *pass;
    const struct run *run;
    uint32_t first, last; /* indices in the batch */
    uint32_t block, end;  /* the next block, and one past the last KV index */
    struct core_chunk chunk;
    uint32_t next_token;  /* the next token for the chunk */
    uint32_t token, seen; /* a token, and the number of the chunk's rows that it attends to */
};
struct core_walk attention_core_begin(const struct pass *pass, const struct run *run,
                                      uint32_t first, uint32_t last);
/* Goes to the next chunk with rows. Returns false if there is none. */
bool attention_core_next_chunk(struct core_walk *walk);
/* Goes to the next token that attends to the chunk, or else to the next chunk and its first such
 * token. Returns false at the end. */
bool attention_core_next(struct core_walk *walk);

/* A chunk of `count` rows of a run, at most KV_BLOCK_TOKENS * attention_core_blocks, that lie
 * anywhere: `chosen` has their KV indices. Copies them to `values` if attention multiplies BF16
 * values, else as floats to `rows`. */
void attention_core_gather(const struct pass *pass, const struct run *run, const uint32_t *chosen,
                           uint32_t count, struct core_chunk *chunk_out,
                           uint16_t *values /* [count][kv_width] */,
                           float *rows /* [count][kv_width] */);

/* The span's rows as floats. */
void attention_core_load(const struct model *model, const struct kv_span *span,
                         float *rows /* [count][kv_width] */);

/* One step of the online softmax, over the scores of one more block. Updates *max, replaces each
 * score s by exp(scale * s - scale * *max), and updates *sum. The caller multiplies its accumulated
 * output by *factor_out. */
void attention_core_softmax(const struct kernels *kernels, float *scores, uint32_t count,
                            float scale, float *max, float *sum, float *factor_out);
