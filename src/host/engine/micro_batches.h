/* SPDX-License-Identifier: Apache-2.0
 * Sets the overlap schedule in the step plans of all ranks before they run: a given schedule or the
 * one measured as fastest (serving/policy/choose_overlap), and the cuts of each rank's step into
 * micro-batches. The serving plane plans rows only; this module decides how engines compute them.
 */
#pragma once

#include "compute/weights/shape.h"
#include "contract/step_plan.h"
#include "serving/policy/choose_overlap.h"

struct micro_batches {
    bool measured;          /* the kind is chosen by measured step times; false: it is given */
    uint32_t echoed_ranks;  /* this rank runs alone for so many (model_options.echoes); 0: no */
    enum overlap_kind kind; /* of every step if it is given; otherwise of the running step */
    enum choose_overlap_reason reason;
    struct choose_overlap choose;
    struct choose_overlap_step step;
};

/* `name`: "auto" or the name of a schedule. Returns false for another name. Keeps measurements. */
bool micro_batches_named(const char *name, struct micro_batches *micro_batches);

/* Sets schedule and cuts in plans[ranks]. */
void micro_batches_begin(struct micro_batches *micro_batches, struct step_plan *const *plans,
                         uint32_t ranks, const struct shape *shape);

/* Records the time of the step, also if its schedule was given. */
void micro_batches_end(struct micro_batches *micro_batches, int64_t ns);
