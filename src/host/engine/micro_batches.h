/* SPDX-License-Identifier: Apache-2.0
 * Puts a schedule into the step plans of all ranks before they run: which one, given or measured
 * (serving/policy/choose_overlap), and where each rank's step is cut into its micro-batches. The
 * serving plane plans rows; how engines compute them is decided here.
 */
#pragma once

#include "compute/weights/shape.h"
#include "contract/step_plan.h"
#include "serving/policy/choose_overlap.h"

struct micro_batches {
    bool measured;          /* the kind is chosen by what steps took; else it is given */
    uint32_t echoed_ranks;  /* one rank of so many alone (model_options.echoes); 0: it is not */
    enum overlap_kind kind; /* of every step if it is given; else of the step under way */
    enum choose_overlap_reason reason;
    struct choose_overlap choose;
    struct choose_overlap_step step;
};

/* "auto", or a schedule's name: false if there is no such. What was measured stays. */
bool micro_batches_named(const char *name, struct micro_batches *micro_batches);

/* plans[ranks]. */
void micro_batches_begin(struct micro_batches *micro_batches, struct step_plan *const *plans,
                         uint32_t ranks, const struct shape *shape);

/* The step took so long; noted also if its schedule was given. */
void micro_batches_end(struct micro_batches *micro_batches, int64_t ns);
