/* SPDX-License-Identifier: Apache-2.0
 * Callbacks of a running step. The thread that runs the step calls them, except where documented.
 */
#pragma once

#include "compute/exchange/exchange.h"
#include "compute/kernels/draw_rule.h"
#include "contract/overlap.h"
#include "contract/stage_part.h"

/* Receives the stages of the step's layers as they run (contract/overlap.h). */
struct model_trace {
    void *context;
    void (*begin)(void *context);
    /* `ended`: the transfer for which the stage waited, or NULL. */
    void (*end)(void *context, enum stage stage, uint32_t micro_batch, uint32_t layer,
                const struct exchange_transfer *ended);
    /* The time since the last call, or since the stage's begin, was spent on `part`. Called once
     * for each tile or wave of a part. May be NULL. */
    void (*part)(void *context, enum stage_part part);
    /* The same for a model on a device, which lags behind the thread that runs the step. Called at
     * the step's end with the device's time. */
    void (*took)(void *context, enum stage_part part, double seconds);
};

/* Receives the progress of a step plan's KV rows, and the logits of tokens to be scored
 * (contract/step_plan.h). */
struct model_follower {
    void *context;
    /* Slices 0..slices-1 of all rows are final in their pages. Called once for each count from 1 to
     * the blocks' slices, in order. Not called for plans without rows. */
    void (*written)(void *context, uint64_t step, uint32_t slices);
    /* Waits until slices 0..slices-1 of the KV blocks that the slot's row loads (`loads` of struct
     * step_row) are in their pages, or waiting is pointless. May be NULL if no row loads any. */
    void (*await)(void *context, uint32_t slot, uint32_t slices);
    /* Receives the logits [vocab] that score a row's scored token number `index`, valid during the
     * call. Called in any order, on several threads at the same time. May be NULL if no row has
     * scored tokens. */
    void (*score)(void *context, uint32_t row, uint32_t index, const float *logits);
};

/* The rows of a step's plan for which the model samples tokens and returns no logits. */
struct model_draws {
    const bool *rows; /* [row_count of the plan]; NULL: none */
    /* [row_count][1 + LIMIT_DRAFTS] rules for the successive outputs of each of those rows. The
     * step compacts them to the rules that it used, in the order of `tokens`. */
    struct draw_rule *rules;
    uint32_t *tokens; /* [their logits_count and drafts] in plan order */
};

struct step_row; /* contract/step_plan.h */

/* Replaces drafts, for benchmarks of an MTP layer with a given acceptance rate. The MTP layer still
 * runs. */
struct model_guesser {
    void *context;
    /* Returns the draft to use after a row of the step's plan; the MTP layer drafted `token`. */
    uint32_t (*guess)(void *context, const struct step_row *row, uint32_t token);
};

#define MODEL_NO_ROW UINT32_MAX

/* Intermediate results of one row, for `fathom logits`. All pointers may be NULL. With several
 * ranks, all must pass a probe if one of them asks for MTP's predictions. */
struct model_probe {
    uint32_t row;       /* MODEL_NO_ROW: no row here, but take part in MTP if mtp_argmax is set */
    uint32_t *routing;  /* [layers][experts_per_token] choices of the row's last token; in
                              * dense layers UINT32_MAX */
    uint32_t *attended; /* [layers][index_top_k] with sparse attention: the positions that the row's
                         * last token attends to, ascending, then UINT32_MAX */
    uint32_t *mtp_argmax;    /* [row's token_count]: position i from h_i and token i+1; the last
                              * position takes `mtp_next_token` */
    uint32_t mtp_next_token; /* UINT32_MAX: the greedy token of the last position's logits */
};
