/* SPDX-License-Identifier: Apache-2.0
 * A batch: the tokens that pass through layers together. They are those of a step, of one
 * micro-batch, or the positions of an MTP layer. A batch has tokens, positions, runs and pages, but
 * no activations.
 *
 * Tokens have internal indices: first those of prompt rows, then those of generated rows. Each
 * attention form thus has one contiguous range.
 */
#pragma once

#include "base/status.h"
#include "contract/step_plan.h"

/* Consecutive tokens of one sequence. */
struct run {
    uint32_t plan_row;
    uint32_t slot;  /* of the plan's row */
    uint32_t first; /* internal index of the first token */
    uint32_t token_count;
    uint32_t first_position;
    uint32_t kv_shift; /* KV row of position p is p + kv_shift: 0, in MTP layers 1 */
    const struct page_id *pages;
};

/* Refers to an output of the main model after the final norm, either of a token of this step or one
 * that a slot keeps from an earlier step (compute/model/compute.h). */
struct output_ref {
    uint32_t slot;  /* the slot that keeps it; OUTPUT_OF_STEP: it is of this step */
    uint32_t index; /* index in the slot, or the token's in the step */
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
        *outputs; /* [token_count] MTP layer: the main model's output h for each position */
};

/* Opens an empty batch with room for that many tokens and runs. Close it even after a failure. */
enum status batch_open(struct batch *batch, uint32_t tokens_max, uint32_t runs_max,
                       struct error *error);
void batch_close(struct batch *batch);

void batch_clear(struct batch *batch);
/* Begins a run for the tokens added from now on. They set its `first` and `token_count`. */
void batch_begin_run(struct batch *batch, struct run run);
/* Adds the run's next position. In an MTP layer `token_id` is the token after that position. */
void batch_add(struct batch *batch, uint32_t token_id);
void batch_add_output(struct batch *batch, uint32_t token_id, struct output_ref output);
/* Marks all tokens added so far as prompt tokens (expanded attention). */
void batch_end_prompts(struct batch *batch);

/* part = tokens [first, first + count) of `whole`. Runs that cross its borders are cut. */
void batch_take(struct batch *part, const struct batch *whole, uint32_t first, uint32_t count);

/* The run of a row of the plan; NULL if that row has none. */
const struct run *batch_run_of_row(const struct batch *batch, uint32_t plan_row);
