/* SPDX-License-Identifier: Apache-2.0
 * Callbacks of a running step. The thread that runs the step calls them, unless one says otherwise.
 */
#pragma once

#include "compute/exchange/exchange.h"
#include "compute/kernels/draw_rule.h"
#include "contract/overlap.h"
#include "contract/stage_part.h"

/* Receives each stage of the step's layers as it runs; see contract/overlap.h. */
struct model_trace {
    void *context;
    void (*begin)(void *context);
    /* `ended`: the transfer that the stage waited for, or NULL. */
    void (*end)(void *context, enum stage stage, uint32_t micro_batch, uint32_t layer,
                const struct exchange_transfer *ended);
    /* `part` was done since the last part, or since the stage's begin; once for each tile or wave
     * of it. NULL: not called. */
    void (*part)(void *context, enum stage_part part);
    /* The same of a model on a device, where the thread that runs the step is ahead: at the step's
     * end, and how long the device had it. */
    void (*took)(void *context, enum stage_part part, double seconds);
};

/* Receives the KV rows of a step's plan that are written, and the tokens that its rows want scored
 * (contract/step_plan.h). */
struct model_follower {
    void *context;
    /* Slices 0..slices-1 of all rows stand in their pages, for good: once for each count from 1 to
     * the blocks' slices, in order. Not for plans without rows. */
    void (*written)(void *context, uint64_t step, uint32_t slices);
    /* Returns when leading slices 0..slices-1 of what the slot's row waits for (struct step_row's
     * `loads`) stand in their pages, or it is not worth waiting. May be NULL where no row waits. */
    void (*await)(void *context, uint32_t slot, uint32_t slices);
    /* The logits that score the index'th of a row's scored tokens: [vocab], gone afterwards. In any
     * order, by several threads at the same time. May be NULL where no row has such tokens. */
    void (*score)(void *context, uint32_t row, uint32_t index, const float *logits);
};

/* Rows of a step's plan of which no logits are wanted, but a token drawn from each of them. */
struct model_draws {
    const bool *rows; /* [row_count of the plan]; NULL: none */
    /* [row_count][1 + LIMIT_DRAFTS] of those rows: by what the row's outputs are drawn, one after
     * the other. The step leaves the rules of what it drew, in the order of `tokens`. */
    struct draw_rule *rules;
    uint32_t *tokens; /* [their logits_count and drafts] in plan order */
};

struct step_row; /* contract/step_plan.h */

/* Has the last word on drafts: for benchmarks, which ask what an MTP layer that is right so often
 * would bring. The layer runs as ever. */
struct model_guesser {
    void *context;
    /* The draft behind a row of the step's plan, where the MTP layer drafted `token`. */
    uint32_t (*guess)(void *context, const struct step_row *row, uint32_t token);
};

#define MODEL_NO_ROW UINT32_MAX

/* The view of one row's run, for `fathom logits`; all pointers may be NULL. With ranks, all pass a probe
 * if one asks for MTP's predictions. */
struct model_probe {
    uint32_t row; /* MODEL_NO_ROW: none of this plan, but take part in MTP if that is asked for */
    uint32_t *routing;       /* [layers][experts_per_token] choices of the row's last token; in
                              * dense layers UINT32_MAX */
    uint32_t *mtp_argmax;    /* [row's token_count]: position i from h_i and token i+1; the last
                              * position takes `mtp_next_token` */
    uint32_t mtp_next_token; /* UINT32_MAX: the greedy token of the last position's logits */
};
