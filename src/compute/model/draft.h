/* SPDX-License-Identifier: Apache-2.0
 * Speculative decoding within a step: the MTP layer drafts tokens, and the main pass verifies them.
 * The KV rows of the MTP layer are kept in sync with those of the main pass.
 */
#pragma once

#include "base/limits.h"
#include "base/status.h"

#include <stdint.h>

struct model;
struct run;
struct step_plan;

struct model_draft {
    uint32_t count; /* drafts made; at most the row's draft_count */
    uint32_t tokens[LIMIT_DRAFTS];
};

enum status draft_open(struct model *model, struct error *error);
void draft_close(struct model *model);

/* The draft tokens of the last step after a row of its plan; none without MTP. */
struct model_draft draft_of_row(const struct model *model, uint32_t row);

/* Call it before the main pass. Drafts tokens for the rows that may have drafts. */
void draft_make(struct model *model, const struct step_plan *plan);
/* Call it after the main pass has kept its outputs (compute.h, keep_outputs). Writes MTP's KV rows
 * of the rows without a draft, and saves the hidden states that the next step needs. draft_probe
 * follows for the plan's row `probed_row` and writes that row's own positions; MODEL_NO_ROW: for
 * none. */
void draft_follow(struct model *model, const struct step_plan *plan, uint32_t probed_row);
/* Runs the whole MTP block at every position of a run of the step. `next_token` is the token after
 * the last position. `run` NULL: this rank has no tokens, but still takes part in the other ranks'
 * dispatch and combine. */
void draft_probe(struct model *model, const struct run *run, uint32_t next_token,
                 uint32_t *argmax_out);
