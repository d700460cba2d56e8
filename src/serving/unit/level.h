/* SPDX-License-Identifier: Apache-2.0
 * The cost of a rank's next step, and how much of it fits into less: for ranks that step together,
 * so that one deep in a long context takes fewer tokens and does not make all others wait
 * (serving/policy/balance/balance_prefill, balance_prefill_level). Costs are from a model that all ranks
 * share, because a single rank cannot separate its own time from the others'.
 */
#ifndef SERVING_UNIT_LEVEL_H
#define SERVING_UNIT_LEVEL_H

#include "serving/policy/step_cost.h"
#include "serving/unit/unit.h"

struct level_view {
    double answers_ns; /* of the step with its answers alone, without drafts */
    double full_ns;  /* with all prompt tokens that it may take; as answers_ns if there are none */
    double least_ns; /* with the shortest chunk that is worth reading its context back for; with
                      * prompts at least twice the step without */
};

/* The costs of the unit's next step if all waiting requests could start, with nothing of them
 * cached. */
struct level_view level_look(const struct unit *unit, const struct step_cost *cost);

/* Limits the cost of the unit's next steps to `ns` each. If that is too little, prompts still get
 * the shortest chunk of level_view. `cost` must live until level_free. */
void level_bound(struct unit *unit, const struct step_cost *cost, double ns);

/* Prompt tokens that a plan may have under that limit; 0: unlimited. Uses the plan's own view,
 * scratch.items in the order of scratch.order[0..count), in which the start positions are known.
 * Requests that level_look counted may since have been parked to be loaded from the storage. */
uint32_t level_tokens(const struct unit *unit, uint32_t count);

/* Ends level_bound: no other rank limits the cost of the unit's next steps. */
void level_free(struct unit *unit);

/* The work of the last finished step, from which `cost` learns if this was the most expensive
 * rank. */
struct step_work level_work(const struct unit *unit);

#endif
