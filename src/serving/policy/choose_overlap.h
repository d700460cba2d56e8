/* SPDX-License-Identifier: Apache-2.0
 * Chooses the schedule that overlaps communication (dispatch and combine) with computation in the
 * next step. More micro-batches hide more communication but make each matrix product smaller, so
 * the fastest schedule depends on the machine, the network and the batch. It is therefore measured.
 * Steps are classified by size, in doublings, and by whether most of their tokens are prompt
 * tokens. In each class, every schedule with enough tokens for its micro-batches is tried a few
 * times, unless it is far too slow. Then the fastest is used. Now and then another one that was
 * nearly as fast is measured again, to notice changes.
 *
 * Times are moving averages. One measurement counts for at most twice the average, so an outlier
 * has little effect. Pure: the same measurements give the same choices.
 */
#pragma once

#include "contract/overlap.h"

#define CHOOSE_OVERLAP_SIZES 20 /* doublings of tokens */

enum choose_overlap_reason {
    CHOOSE_OVERLAP_GIVEN,   /* set by an option */
    CHOOSE_OVERLAP_ALONE,   /* one rank: no communication to hide */
    CHOOSE_OVERLAP_LEARN,   /* the schedule was not measured often enough in this class */
    CHOOSE_OVERLAP_FASTEST, /* the fastest of those measured */
    CHOOSE_OVERLAP_RETRY,   /* nearly as fast as the fastest; measured again */
    CHOOSE_OVERLAP_REASON_COUNT
};

/* The reason as short lower-case text, for logs and traces. */
const char *choose_overlap_reason_name(enum choose_overlap_reason reason);

struct choose_overlap_class {
    double ns_each[OVERLAP_KIND_COUNT]; /* nanoseconds of a step per token */
    uint32_t seen[OVERLAP_KIND_COUNT];
    uint32_t since_retry; /* steps since a slower schedule was last tried */
};

struct choose_overlap {                                           /* zeroed at the start */
    struct choose_overlap_class classes[2][CHOOSE_OVERLAP_SIZES]; /* answers, prompts */
};

struct choose_overlap_step {
    uint32_t ranks;
    uint32_t tokens; /* tokens of the rank that has the most */
    bool prompts;    /* most tokens of all ranks belong to prompts */
};

struct choose_overlap_choice {
    enum overlap_kind kind;
    enum choose_overlap_reason reason;
};

struct choose_overlap_choice choose_overlap(struct choose_overlap *choose,
                                            const struct choose_overlap_step *step);

/* Records the measured time of a step with that schedule. */
void choose_overlap_observe(struct choose_overlap *choose, const struct choose_overlap_step *step,
                            enum overlap_kind kind, int64_t ns);
