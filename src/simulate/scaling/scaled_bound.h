/* SPDX-License-Identifier: Apache-2.0
 * The fewest nodes that any rule can have on a day, whatever it does, if it knows the day's curve and the law of
 * its noise, but not what the noise is going to be: to see how much of what a rule takes more than one that knows
 * all is its own fault.
 *
 * A unit that serves at t + start_ns has been paid for at t, when nobody knew more of the load then than the noise
 * at t says. So in each window a number of units is chosen by the noise of the moment; they cost their nodes, and
 * bear the window a start's time later, or miss it. What they cost on average is made as small as a share of missed
 * windows and a number of turns (growth behind shrinking, or the opposite) allow. What else costs something is left
 * away:
 *
 *   a unit that drains  costs nothing any more
 *   an answer           is missed if the units cannot bear the load of the window
 *   a prompt            is missed only if the load of the whole minute up to it is more than the units can do in that
 *                       minute and in the time that a prompt may wait
 *   the two sides       may each miss the whole share, and turn as often as the fleet may
 *
 * Two gifts are not counted: a unit that is called back from its drain, and prompts that were computed early by
 * units that went within the minute.
 *
 * By Lagrange's prices for a miss and a turn, for which the cheapest rule is found backwards from the day's end (dynamic
 * programming), the noise in STEPS values (Rouwenhorst's chain, which has the noise's mean, deviation and
 * persistence). Whatever the prices are, no rule is cheaper than the result (weak duality); the prices for which it is
 * largest are looked for.
 */
#ifndef SIMULATE_SCALING_SCALED_BOUND_H
#define SIMULATE_SCALING_SCALED_BOUND_H

#include "simulate/scaling/scaled_world.h"

struct scaled_bound_limits {
    double missed_share; /* of the windows, on average; > 0 */
    double turns;        /* of each side in the measured time, on average; 0: as many as it likes */
};

/* Arena bytes for one bound. */
size_t scaled_bound_bytes(void);

/* Nodes on average, from measure_ns to end_ns of `day`, whose faults do not matter. */
enum status scaled_bound(struct arena *arena, const struct scaled_options *day,
                         struct scaled_bound_limits limits, double *nodes_out) MUST_USE;

#endif
