/* SPDX-License-Identifier: Apache-2.0
 * The tokens that go through layers together: a step's, a micro-batch's part of them, or the
 * positions of an MTP layer. Knows tokens, positions, runs and pages, never a value.
 *
 * Tokens stand in one row of internal indices, those of prompt rows first, then those of generated
 * rows, so that each attention form has one contiguous range.
 */
#pragma once

#include "base/status.h"
#include "contract/step_plan.h"

/* Consecutive tokens of one sequence. */
struct run {
    uint32_t plan_row;
    uint32_t first; /* internal index of the first token */
    uint32_t token_count;
    uint32_t first_position;
    uint32_t kv_shift; /* KV row of position p is p + kv_shift: 0, in MTP layers 1 */
    const struct page_id *pages;
};

/* An output of the main model after the final norm: of a token of the step, or kept from an earlier
 * step (compute/model/compute.h). */
struct output_ref {
    uint32_t slot;  /* the one that keeps it; OUTPUT_OF_STEP: it is of this step */
    uint32_t index; /* among what the slot keeps, or of the step's token */
};
#define OUTPUT_OF_STEP UINT32_MAX

struct batch {
    uint32_t token_count, prompt_tokens; /* prompt form: internal indices 0..prompt_tokens-1 */
    uint32_t run_count, prompt_runs;
    struct run *runs;    /* [run_count] */
    uint32_t *token_ids; /* [token_count] */
    uint32_t *positions; /* [token_count] */
    uint32_t *token_run; /* [token_count] the run that a token belongs to */
    struct output_ref
        *outputs; /* [token_count] the token that gives a position of an MTP layer its output h */
};

/* Room for so many tokens and runs; the batch is empty. Whatever it returns, close the batch. */
enum status batch_open(struct batch *batch, uint32_t tokens_max, uint32_t runs_max,
                       struct error *error);
void batch_close(struct batch *batch);

void batch_clear(struct batch *batch);
/* Tokens added from now on are of this run; its `first` and `token_count` follow from them. */
void batch_begin_run(struct batch *batch, struct run run);
/* Adds the run's next position. In an MTP layer `token_id` is the token behind it. */
void batch_add(struct batch *batch, uint32_t token_id);
void batch_add_output(struct batch *batch, uint32_t token_id, struct output_ref output);
/* All that was added so far is of prompt form. */
void batch_end_prompts(struct batch *batch);

/* part = tokens [first, first + count) of the whole; runs that it cuts are shortened. */
void batch_take(struct batch *part, const struct batch *whole, uint32_t first, uint32_t count);

/* The run of a row of the plan; NULL if there is none. */
const struct run *batch_run_of_row(const struct batch *batch, uint32_t plan_row);
