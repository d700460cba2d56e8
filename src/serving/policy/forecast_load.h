/* SPDX-License-Identifier: Apache-2.0
 * Forecasts a fleet's load in tokens per second, for several streams, from a curve of one period (a
 * day) that is learnt from earlier periods, and from the deviation of the last minutes.
 *
 *   curve(t)     mean of a 288th of the period; later periods count for more; linear between the
 *                middles of these parts
 *   recent       mean over the last 288th of a period; the latest counts for most
 *
 * There are three ways to extrapolate. load_noise measures which one had the smallest error
 * recently:
 *
 *   deviates     curve(t) * (1 + (recent / curve(now) - 1) * 2^(-(t - now) / half)). `half`, a
 *                sixth of the period, is the expected duration of a deviation: a crowd, or a
 *                missing morning peak, is followed at once, and the curve is used again for the
 *                distant future
 *   as ever      curve(t): deviations are noise, and soon over
 *   as now       recent, extended along its trend for at most a 48th of the period: for days unlike
 *                earlier ones, and where nothing is known of a part
 *
 * The caller keeps the state; otherwise pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define FORECAST_PARTS 288
#define FORECAST_STREAMS 2

enum forecast_way { FORECAST_DEVIATES, FORECAST_AS_EVER, FORECAST_AS_NOW, FORECAST_WAYS };

struct forecast_part {
    double mean[FORECAST_STREAMS];    /* mean of earlier periods */
    double present[FORECAST_STREAMS]; /* tokens in the current period, so far */
    double present_ns;                /* observed time of `present` */
    uint32_t periods;                 /* count of periods in `mean` */
};

struct forecast_load {
    int64_t period_ns;
    int64_t last_ns; /* end of the last window that was added */
    bool has_any;
    double recent[FORECAST_STREAMS];
    double trend[FORECAST_STREAMS]; /* tokens per second, each second */
    enum forecast_way way[FORECAST_STREAMS];
    struct forecast_part parts[FORECAST_PARTS];
};

/* Starts without data. */
void forecast_load_open(struct forecast_load *forecast, int64_t period_ns);

/* Adds the mean rates, in tokens per second, of the window from the last call until now. Periods
 * begin at multiples of period_ns of the clock. If the clock steps back, the window is ignored. */
void forecast_load_add(struct forecast_load *forecast, const double rates[FORECAST_STREAMS],
                       int64_t now_ns);

/* Sets the part of the curve at a time, as known from a file or from an operator. */
void forecast_load_teach(struct forecast_load *forecast, int64_t at_ns,
                         const double rates[FORECAST_STREAMS]);

/* The forecast for `at_ns` (not before now) by the given extrapolation. */
double forecast_load_by(const struct forecast_load *forecast, enum forecast_way way,
                        uint32_t stream, int64_t at_ns);

/* The forecast for `at_ns` by the stream's present extrapolation. */
double forecast_load_at(const struct forecast_load *forecast, uint32_t stream, int64_t at_ns);

/* The largest forecast between now and `until_ns`. */
double forecast_load_peak(const struct forecast_load *forecast, uint32_t stream, int64_t until_ns);
