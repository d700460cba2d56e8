/* SPDX-License-Identifier: Apache-2.0
 * A lower bound on the nodes that a fleet needs on a day: the fewest that any rule can have that
 * knows the day's load curve and the distribution of its noise, but not the future noise. It shows
 * how much of a rule's excess over a clairvoyant rule could be avoided.
 *
 * A unit that serves at t + start_ns is paid for from t on, and at t only the noise at t is known.
 * So each window chooses a number of units from its present noise. They cost their nodes, and one
 * start time later they serve the load of a window or miss it. Their mean cost is minimised under a
 * limit on missed windows and a limit on turns (growth after shrinking, or the reverse). All other
 * costs are left out:
 *
 *   a unit that drains  costs nothing any more
 *   an answer           is missed if the units cannot serve the load of the window
 *   a prompt            is missed only if the load of the whole minute up to it is more than the
 *                       units can do in that minute and in the time that a prompt may wait
 *   the two sides       may each miss the whole share, and turn as often as the fleet may
 *
 * Two advantages of real rules are not counted: units called back from their drain, and prompts
 * that were computed early by units that ended within the minute.
 *
 * Method: Lagrange multipliers are prices for a miss and for a turn. For given prices, the cheapest
 * rule is found backwards from the end of the day (dynamic programming), with the noise in STEPS
 * values (Rouwenhorst's chain, which has the mean, deviation and persistence of the noise). For any
 * prices, no rule is cheaper than the result (weak duality). So the prices with the largest result
 * are searched.
 */
#pragma once

#include "simulate/scaling/scaled_world.h"

struct scaled_bound_limits {
    double missed_share; /* mean share of the windows; > 0 */
    double turns;        /* mean number for each side in the measured time; 0: unlimited */
};

/* Arena bytes for the computation of one bound. */
size_t scaled_bound_bytes(void);

/* The bound: mean number of nodes from measure_ns to end_ns of `day`. Faults of the day are
 * ignored. */
enum status scaled_bound(struct arena *arena, const struct scaled_options *day,
                         struct scaled_bound_limits limits, double *nodes_out) MUST_USE;
