/* SPDX-License-Identifier: Apache-2.0
 * The cost of a rank's next step, and the part of it that fits a limit, for ranks that step
 * together: a rank deep in a long context then takes fewer tokens and does not delay the others
 * (serving/policy/balance/balance_prefill, balance_prefill_level). Costs are from a model that all
 * ranks share, because a single rank cannot separate its own time from the others'.
 */
#pragma once

#include "serving/policy/step_cost.h"
#include "serving/unit/unit.h"

struct level_view {
    double answers_ns; /* the step with its answers alone, without drafts */
    /* the step with all prompt tokens that it may take; equal to answers_ns if there are none */
    double full_ns;
    /* the step with the shortest chunk that is worth reading its context back; with prompts at
     * least twice the step without */
    double least_ns;
};

/* The costs of the unit's next step if all waiting requests could start, without cached blocks. */
struct level_view level_look(const struct unit *unit, const struct step_cost *cost);

/* The number of prompt tokens that a plan may have under the unit's limit, level_ns by level_cost; 0:
 * unlimited. If the limit is too low, prompts still get the shortest chunk of level_view. Uses the
 * plan's view, scratch.items in the order of scratch.order[0..count), with known start positions. Requests
 * that level_look counted may since have been parked to be loaded from the storage. */
uint32_t level_tokens(const struct unit *unit, uint32_t count);
