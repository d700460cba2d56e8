/* SPDX-License-Identifier: Apache-2.0
 * How far a fleet's load strays, learnt from the load itself, so that nobody has to say how restless a day
 * will be:
 *
 *   jump    the least that the load of the last moments can be, if it wanders as it has of late: less
 *           three standard deviations. What no noise explains is believed at once, where a mean over
 *           minutes would follow it for minutes.
 *   way     in which the load goes on (forecast_load): the one that was off least of late
 *   margin  what the load may be above what was expected of it a start's time before, as a share of that,
 *           in all but one moment of a hundred: 2.33 standard deviations. Capacity that is ordered now has to
 *           bear that, too. What counting alone explains is not in it: so few requests even themselves
 *           out in queues, and no unit would help.
 *
 * Deviations are 1.25 times the mean distance, as a normal distribution has it; a distance counts for a
 * quarter at most, and is forgotten over a sixth of a period: a jump makes no margin for the whole day.
 *
 * The state is the caller's; else pure. Of several streams, as forecast_load.
 */
#ifndef SERVING_POLICY_LOAD_NOISE_H
#define SERVING_POLICY_LOAD_NOISE_H

#include <stdint.h>

#include "serving/policy/forecast_load.h"

#define LOAD_NOISE_HOPES 8

struct load_noise_rule {
    int64_t period_ns; /* a day */
    int64_t quick_ns;  /* the last moments are about so long; 0: nothing is learnt */
    int64_t ahead_ns;  /* from an order to a unit that serves */
};

struct load_noise { /* zeros but for the rule at first */
    struct load_noise_rule rule;
    uint64_t windows;
    double quick[FORECAST_STREAMS]; /* mean rate of the last moments */
    double
        wander[FORECAST_STREAMS]; /* mean distance of quick from the mean over minutes, of that */
    /* Mean distance of quick from what was expected, of that. */
    double error[FORECAST_WAYS][FORECAST_STREAMS];
    double requests; /* that came in the last moments */
    struct {
        int64_t at_ns; /* 0: none */
        double rates[FORECAST_WAYS][FORECAST_STREAMS];
    } hopes[LOAD_NOISE_HOPES]; /* what was expected for times to come, in turn */
    uint32_t hope_count;
};

struct load_noise_window {
    double requests;                /* that came */
    double rates[FORECAST_STREAMS]; /* their tokens a second */
    double fast[FORECAST_STREAMS];  /* the mean of that over minutes */
    int64_t passed_ns;
};

/* The forecast has been told of the window, which ends now. */
void load_noise_add(struct load_noise *noise, const struct load_noise_window *window,
                    const struct forecast_load *forecast, int64_t now_ns);

double load_noise_jump(const struct load_noise *noise, uint32_t stream);

enum forecast_way load_noise_way(const struct load_noise *noise, uint32_t stream);

/* Of that way. */
double load_noise_margin(const struct load_noise *noise, uint32_t stream);

#endif
