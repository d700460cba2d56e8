/* SPDX-License-Identifier: Apache-2.0
 * Speculation inside a step: the MTP layer guesses tokens that the main pass then checks, and its
 * KV rows follow the main pass's.
 */
#ifndef COMPUTE_MODEL_DRAFT_H
#define COMPUTE_MODEL_DRAFT_H

#include "base/limits.h"
#include "base/status.h"

#include <stdint.h>

struct model;
struct run;
struct step_plan;

struct model_draft {
    uint32_t count; /* made: at most the row's draft_count */
    uint32_t tokens[LIMIT_DRAFTS];
};

enum status draft_open(struct model *model, struct error *error);
void draft_close(struct model *model);

/* The draft of the last step after a row of its plan; without MTP, none. */
struct model_draft draft_of_row(const struct model *model, uint32_t row);

/* Before the main pass: guesses for the rows that may have drafts. */
void draft_make(struct model *model, const struct step_plan *plan);
/* After the main pass has kept its outputs (compute.h, keep_outputs): writes the MTP KV rows of the
 * other rows, and keeps what the next rows need. */
void draft_follow(struct model *model, const struct step_plan *plan);
/* Runs the whole MTP block at every position of a run of the step; the last one's next token is
 * `next_token`. Without a run it takes part in other ranks' tokens. */
void draft_probe(struct model *model, const struct run *run, uint32_t next_token,
                 uint32_t *argmax_out);

#endif
