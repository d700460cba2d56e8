/* SPDX-License-Identifier: Apache-2.0
 * Estimates the noise of a fleet's load from the load itself, so that it need not be configured:
 *
 *   jump    lower bound of the present load, given its recent noise: three standard deviations
 *           below the load of the last moments. A change that noise cannot explain is accepted at
 *           once; a mean over minutes would follow it only in minutes.
 *   way     the extrapolation (forecast_load) with the smallest recent error
 *   margin  the fraction by which the load exceeds its forecast of a start's time before, in all
 *           but one moment of a hundred: 2.33 standard deviations. Capacity that is ordered now has
 *           to serve that, too. It excludes the counting noise of few requests: queues even that
 *           out by themselves, and no unit would help.
 *
 * Standard deviations are computed as 1.25 times the mean deviation, as in a normal distribution. A
 * single deviation is counted as a quarter at most, and is forgotten over a sixth of a period, so
 * that one jump does not leave a margin for the whole day.
 *
 * The caller keeps the state; otherwise pure. For several streams, as in forecast_load.
 */
#pragma once

#include <stdint.h>

#include "serving/policy/forecast_load.h"

#define LOAD_NOISE_HOPES 8

struct load_noise_rule {
    int64_t period_ns; /* a day */
    int64_t quick_ns;  /* averaging time of the last moments; 0: nothing is learnt */
    int64_t ahead_ns;  /* time from an order until the unit serves */
};

struct load_noise { /* zeroed, except for the rule, at the start */
    struct load_noise_rule rule;
    uint64_t windows;
    double quick[FORECAST_STREAMS]; /* mean rate of the last moments */
    /* mean deviation of `quick` from the mean over minutes, as a fraction of it */
    double wander[FORECAST_STREAMS];
    /* mean deviation of `quick` from its forecast, as a fraction of it */
    double error[FORECAST_WAYS][FORECAST_STREAMS];
    double requests; /* requests that arrived in the last moments */
    struct {
        int64_t at_ns; /* 0: unused */
        double rates[FORECAST_WAYS][FORECAST_STREAMS];
    } hopes[LOAD_NOISE_HOPES]; /* ring of forecasts of future times */
    uint32_t hope_count;
};

struct load_noise_window {
    double requests;                /* requests that arrived */
    double rates[FORECAST_STREAMS]; /* tokens per second of these requests */
    double fast[FORECAST_STREAMS];  /* mean of `rates` over minutes */
    int64_t passed_ns;
};

/* Adds a window that ends now. forecast_load_add must have been called with it first. */
void load_noise_add(struct load_noise *noise, const struct load_noise_window *window,
                    const struct forecast_load *forecast, int64_t now_ns);

double load_noise_jump(const struct load_noise *noise, uint32_t stream);

enum forecast_way load_noise_way(const struct load_noise *noise, uint32_t stream);

/* The margin for the stream's present extrapolation. */
double load_noise_margin(const struct load_noise *noise, uint32_t stream);
