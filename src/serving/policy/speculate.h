/* SPDX-License-Identifier: Apache-2.0
 * Decides whether the next step uses speculative drafts for its answers (contract/step_plan.h). A
 * draft costs a run of the MTP layer and one more token in the main forward pass. The gain is
 * proportional to the share of accepted drafts. Whether drafts pay depends on the machine, the
 * model, the batch and the text. Steps with and without drafts are therefore measured:
 *
 *   drafts pay  <=>  (1 + right per row) * ns without > ns with * (1 + 2 %)
 *
 * The times are those of steps with decode rows only, per log2 of the number of rows. The
 * acceptance rate depends on the text, so there is only one. For a new number of rows, both
 * alternatives are tried a few times. Later the slower one is tried once in 64 steps, and less
 * often as long as it remains slower, to notice changes.
 *
 * Doubles with fixed operations in a fixed order: the same measurements give the same choices.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

enum speculate_mode { SPECULATE_NEVER, SPECULATE_ALWAYS, SPECULATE_MEASURED, SPECULATE_MODE_COUNT };

enum speculate_reason {
    SPECULATE_NO_ROWS, /* no answer can have a draft */
    SPECULATE_NO_ROOM, /* the step has too few tokens for all drafts and a block of a prompt */
    SPECULATE_FORBIDDEN,
    SPECULATE_DEMANDED,
    SPECULATE_LEARNS, /* one alternative has not been measured often enough */
    SPECULATE_PAYS,
    SPECULATE_COSTS,
    SPECULATE_TRIES, /* the slower alternative, to check whether it still is */
};

#define SPECULATE_BUCKETS 10 /* 1, 2-3, 4-7, ... answers in a step */

struct speculate_times { /* measured times of steps with a given number of answers */
    double ns[2];        /* moving averages: without drafts, with */
    uint32_t steps[2];   /* measured steps, up to a bound */
    uint32_t same_steps; /* steps since both were last tried */
    uint32_t patience;   /* steps until the slower one is tried; 0: SPECULATE_TRY_STEPS */
};

#define SPECULATE_TRY_STEPS 64
#define SPECULATE_TRY_STEPS_MAX 1024

struct speculate { /* zeroed at the start */
    struct speculate_times times[SPECULATE_BUCKETS];
    double right; /* accepted drafts per answer, in steps with drafts */
    double seen;  /* answers measured, up to a bound */
};

struct speculate_choice {
    bool drafts;
    enum speculate_reason reason;
};

/* Chooses for a step with `row_count` answers. `draft_count`: answers that can have a draft.
 * `room`: tokens of the step for the answers and their drafts. */
struct speculate_choice speculate_choose(const struct speculate *speculate,
                                         enum speculate_mode mode, uint32_t row_count,
                                         uint32_t draft_count, uint32_t room);

/* Records a step with `row_count` answers, `draft_count` drafts (0: a step without drafts), and
 * `right_count` accepted drafts. `ns`: time of the step; 0 if it also computed prompts. */
void speculate_observe(struct speculate *speculate, uint32_t row_count, uint32_t draft_count,
                       uint32_t right_count, int64_t ns);
