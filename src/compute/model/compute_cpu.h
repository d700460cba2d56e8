/* SPDX-License-Identifier: Apache-2.0
 * Inside of what the CPU computes (compute.h): loops of the team over tokens, and attention's
 * parts.
 */
#ifndef COMPUTE_MODEL_COMPUTE_CPU_H
#define COMPUTE_MODEL_COMPUTE_CPU_H

#include "compute/model/compute.h"

/* Calls work for all tokens, in shares over the team if there are enough of them. */
void compute_tokens(const struct model *model, team_work *work, void *context, uint32_t count);

void attention_run_prompt(const struct pass *pass);    /* expanded form -> scratch.attended */
void attention_run_generated(const struct pass *pass); /* absorbed form -> scratch.attended */

/* The online softmax over one block's scores: scores become exp(scale * s - scale * new maximum);
 * the caller multiplies what it has gathered so far by *factor_out. */
void attention_softmax(const struct kernels *kernels, float *scores, uint32_t count, float scale,
                       float *max, float *sum, float *factor_out);

/* Rows [first, first + count) of a page's slice as floats. */
void attention_load_rows(const struct model *model, const void *slice, uint32_t first,
                         uint32_t count, float *rows /* [count][kv_width] */);

/* A block of KV rows as a run sees it: rows [first, first + count) of the page. */
struct kv_span {
    const void *slice;
    uint32_t start; /* KV index of the span's first row */
    uint32_t first, count;
};
/* Block `block` of the run; `end`: one past the last KV index that is valid. */
struct kv_span attention_span(const struct pass *pass, const struct run *run, uint32_t block,
                              uint32_t end);

/* Rotates a vector in place. */
void rope_rotate(const struct shape *shape, const float *angles, float *x /* [rope_dim] */);

#endif
