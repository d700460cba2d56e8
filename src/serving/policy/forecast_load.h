/* SPDX-License-Identifier: Apache-2.0
 * What a fleet's load will be, from what it was: a curve of one period (a day), learnt from the
 * periods before, and how the last minutes stand to it. In tokens a second, of several streams.
 *
 *   curve(t)     mean of a 288th of the period, later periods counting for more, straight lines between
 *                the middles of these parts
 *   recent       mean over the last 288th of a period, the latest counting for most
 *
 * What is expected is one of three ways to go on from there; whoever knows which of them was off least of late says
 * so (load_noise):
 *
 *   deviates     curve(t) * (1 + (recent / curve(now) - 1) * 2^(-(t - now) / half)). `half`, a sixth of the period,
 *                is how long a deviation is believed to last: a crowd, or a morning that does not come, is
 *                followed at once, and the curve is trusted again for the time far ahead
 *   as ever      curve(t): what strays from it is noise, and over soon
 *   as now       recent, carried on along its trend for a 48th of the period at most: on days that have nothing
 *                to do with those before, and where nothing is known of a part
 *
 * The state is the caller's; else pure.
 */
#ifndef SERVING_POLICY_FORECAST_LOAD_H
#define SERVING_POLICY_FORECAST_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#define FORECAST_PARTS 288
#define FORECAST_STREAMS 2

enum forecast_way { FORECAST_DEVIATES, FORECAST_AS_EVER, FORECAST_AS_NOW, FORECAST_WAYS };

struct forecast_part {
    double mean[FORECAST_STREAMS];    /* of the periods before */
    double present[FORECAST_STREAMS]; /* tokens that came in this period, so far */
    double present_ns;                /* of which so much has been seen */
    uint32_t periods;                 /* that `mean` is made of */
};

struct forecast_load {
    int64_t period_ns;
    int64_t last_ns; /* end of the last window that was told */
    bool has_any;
    double recent[FORECAST_STREAMS];
    double trend[FORECAST_STREAMS]; /* tokens a second, each second */
    enum forecast_way way[FORECAST_STREAMS];
    struct forecast_part parts[FORECAST_PARTS];
};

/* Nothing is known. */
void forecast_load_open(struct forecast_load *forecast, int64_t period_ns);

/* From the last call's time until now so many tokens a second came. Time is that of a clock in which
 * periods begin at multiples of period_ns; a step back is as if nothing had been told. */
void forecast_load_add(struct forecast_load *forecast, const double rates[FORECAST_STREAMS],
                       int64_t now_ns);

/* The curve's part at a time is known beforehand: from a file, or a person. */
void forecast_load_teach(struct forecast_load *forecast, int64_t at_ns,
                         const double rates[FORECAST_STREAMS]);

/* Expected at `at_ns`, not before now, if it goes on in that way. */
double forecast_load_by(const struct forecast_load *forecast, enum forecast_way way,
                        uint32_t stream, int64_t at_ns);

/* The same, in the way of the stream. */
double forecast_load_at(const struct forecast_load *forecast, uint32_t stream, int64_t at_ns);

/* The most that is expected from now until then. */
double forecast_load_peak(const struct forecast_load *forecast, uint32_t stream, int64_t until_ns);

/* When that much, or more, is next expected, until `until_ns`; that if never. */
int64_t forecast_load_reaches(const struct forecast_load *forecast, uint32_t stream, double rate,
                              int64_t until_ns);

#endif
