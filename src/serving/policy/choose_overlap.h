/* SPDX-License-Identifier: Apache-2.0
 * Which overlap schedule the next step takes. More micro-batches hide more communication but make
 * each product smaller, so which is fastest depends on the machine, the link and the batch: it is
 * measured. Steps are told apart by their size, in doublings, and by whether most of their tokens
 * are prompts'. In each such class every schedule whose micro-batches can all have tokens is tried
 * a few times, unless it turns out hopeless, then the fastest is taken; now and then another that
 * was nearly as fast is tried again, so that a change is noticed.
 *
 * Times fade in as moving averages; one measurement counts at most for twice the average, so a
 * hiccup of the machine does not matter long. Pure: the same measurements, the same choices.
 */
#ifndef SERVING_POLICY_CHOOSE_OVERLAP_H
#define SERVING_POLICY_CHOOSE_OVERLAP_H

#include "contract/overlap.h"

#define CHOOSE_OVERLAP_SIZES 20 /* doublings of tokens */

enum choose_overlap_reason {
    CHOOSE_OVERLAP_GIVEN,   /* not chosen here */
    CHOOSE_OVERLAP_ALONE,   /* one rank: there is nothing to hide */
    CHOOSE_OVERLAP_LEARN,   /* not measured often enough in steps like this */
    CHOOSE_OVERLAP_FASTEST, /* of those measured */
    CHOOSE_OVERLAP_RETRY,   /* nearly as fast; perhaps faster by now */
    CHOOSE_OVERLAP_REASON_COUNT
};

/* Short lower-case text, for logs and traces. */
const char *choose_overlap_reason_name(enum choose_overlap_reason reason);

struct choose_overlap_class {
    double ns_each[OVERLAP_KIND_COUNT]; /* of a step, for each of its tokens */
    uint32_t seen[OVERLAP_KIND_COUNT];
    uint32_t since_retry; /* steps */
};

struct choose_overlap {                                           /* starts zeroed: nothing known */
    struct choose_overlap_class classes[2][CHOOSE_OVERLAP_SIZES]; /* answers, prompts */
};

struct choose_overlap_step {
    uint32_t ranks;
    uint32_t tokens; /* of the rank that has most */
    bool prompts;    /* most of all ranks' tokens are prompts' */
};

struct choose_overlap_choice {
    enum overlap_kind kind;
    enum choose_overlap_reason reason;
};

struct choose_overlap_choice choose_overlap(struct choose_overlap *choose,
                                            const struct choose_overlap_step *step);

/* A step of that kind took so long. */
void choose_overlap_observe(struct choose_overlap *choose, const struct choose_overlap_step *step,
                            enum overlap_kind kind, int64_t ns);

#endif
