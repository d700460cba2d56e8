/* SPDX-License-Identifier: Apache-2.0
 * Levels the cost of a common step over DP ranks. It estimates the cost of a rank's next step, and
 * how many prompt tokens fit below a limit. A rank deep in a long context then takes fewer tokens
 * and does not delay the other ranks (balance_prefill_level in
 * serving/policy/balance/balance_prefill). All ranks share one cost model, because a single rank
 * cannot separate its own time from that of the others.
 */
#pragma once

#include "serving/policy/step_cost.h"
#include "serving/unit/unit.h"

struct level_view {
    double answers_ns; /* cost of the step with decode rows only, without drafts */
    /* cost with all prompt tokens that the step may take; equal to answers_ns if there are none */
    double full_ns;
    /* cost with the shortest chunk that is worth reading its context back for; with prompts, at
     * least twice answers_ns */
    double least_ns;
};

/* The costs of the unit's next step if all waiting requests could start, without prefix cache
 * hits. */
struct level_view level_look(const struct unit *unit, const struct step_cost *cost);

/* The maximum of prompt tokens in a plan under the unit's limit (level_ns, priced by level_cost);
 * 0: unlimited. If the limit is too low, prompts still get the shortest chunk of level_view. Uses
 * the view of the plan: scratch.items in the order of scratch.order[0..count), with known start
 * positions. Requests that level_look counted may have been parked since, to be loaded from the
 * storage. */
uint32_t level_tokens(const struct unit *unit, uint32_t count);
