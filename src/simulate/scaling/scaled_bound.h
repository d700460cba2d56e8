/* SPDX-License-Identifier: Apache-2.0
 * The fewest nodes that any rule can have on a day if it knows the day's curve and the distribution
 * of its noise, but not the future noise. It shows how much of a rule's excess over a clairvoyant
 * rule is its own fault.
 *
 * A unit that serves at t + start_ns is paid for from t on, when the only knowledge of the load
 * then is the noise at t. Each window therefore chooses a number of units by its present noise.
 * They cost their nodes, and serve the window one start's time later, or miss it. Their mean cost
 * is minimised within a limit of missed windows and a number of turns (growth after shrinking, or
 * the reverse). All other costs are left out:
 *
 *   a unit that drains  costs nothing any more
 *   an answer           is missed if the units cannot serve the load of the window
 *   a prompt            is missed only if the load of the whole minute up to it is more than the
 *                       units can do in that minute and in the time that a prompt may wait
 *   the two sides       may each miss the whole share, and turn as often as the fleet may
 *
 * Two advantages of real rules are not counted: a unit that is called back from its drain, and
 * prompts that were computed early by units that ended within the minute.
 *
 * Method: Lagrange prices for a miss and a turn. The cheapest rule for given prices is found
 * backwards from the day's end (dynamic programming), with the noise in STEPS values (Rouwenhorst's
 * chain, which has the noise's mean, deviation and persistence). For any prices no rule is cheaper
 * than the result (weak duality), so the prices with the largest result are searched.
 */
#pragma once

#include "simulate/scaling/scaled_world.h"

struct scaled_bound_limits {
    double missed_share; /* of the windows, on average; > 0 */
    double turns;        /* of each side in the measured time, on average; 0: unlimited */
};

/* Arena bytes for one bound. */
size_t scaled_bound_bytes(void);

/* Mean number of nodes from measure_ns to end_ns of `day`. Its faults do not matter. */
enum status scaled_bound(struct arena *arena, const struct scaled_options *day,
                         struct scaled_bound_limits limits, double *nodes_out) MUST_USE;
