/* SPDX-License-Identifier: Apache-2.0
 * What a rank's next step would cost, and how much of it fits into less: for ranks that step
 * together, so that one in the depths of a long context takes fewer tokens rather than making all
 * others wait (serving/policy/balance_prefill, balance_prefill_level). Costs are by a model that
 * all ranks share; a rank alone cannot tell its own time from the others'.
 */
#ifndef SERVING_UNIT_LEVEL_H
#define SERVING_UNIT_LEVEL_H

#include "serving/policy/step_cost.h"
#include "serving/unit/unit.h"

struct level_view {
    double answers_ns; /* of the step with its answers alone; their drafts are not counted */
    double full_ns;  /* with all prompt tokens that it may take; as answers_ns if there are none */
    double least_ns; /* with the shortest chunk that is worth reading its context back for, and no
                      * less with prompts than twice without */
};

/* The costs of the unit's next step if all requests that wait could start, with nothing of them
 * cached. */
struct level_view level_look(const struct unit *unit, const struct step_cost *cost);

/* The unit's next steps are to cost no more than `ns` each; where that is too little, prompts still
 * get the shortest chunk of level_view. `cost` lives until level_free. */
void level_bound(struct unit *unit, const struct step_cost *cost, double ns);

/* Prompt tokens that a plan may have under that bound; 0: as many as it likes. Of the plan's own view,
 * scratch.items in the order of scratch.order[0..count): by then it is known who starts from where.
 * What ranks looked at before (level_look) may since have been parked, to be loaded from the
 * storage. */
uint32_t level_tokens(const struct unit *unit, uint32_t count);

/* Ends level_bound: what the unit's next steps cost is bound by no other rank. */
void level_free(struct unit *unit);

/* The step that was done last: what `cost` is to learn from, if this was the costliest rank. */
struct step_work level_work(const struct unit *unit);

#endif
