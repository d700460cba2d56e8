/* SPDX-License-Identifier: Apache-2.0
 * Speculation inside a step: the MTP layer drafts tokens, which the main pass then checks. Its KV
 * rows are kept in step with the main pass's.
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

/* The draft of the last step after a row of its plan; without MTP, none. */
struct model_draft draft_of_row(const struct model *model, uint32_t row);

/* Before the main pass: drafts for the rows that may have some. */
void draft_make(struct model *model, const struct step_plan *plan);
/* After the main pass has kept its outputs (compute.h, keep_outputs): writes MTP's KV rows of the
 * rows without a draft, and saves the hidden states that the next step needs. */
void draft_follow(struct model *model, const struct step_plan *plan);
/* Runs the whole MTP block at every position of a run of the step; the last one's next token is
 * `next_token`. NULL: this rank has no tokens, but still joins dispatch and combine for the
 * other ranks. */
void draft_probe(struct model *model, const struct run *run, uint32_t next_token,
                 uint32_t *argmax_out);
