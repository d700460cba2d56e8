/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/forecast_load.h"

#include <math.h>

#include "base/check.h"

#define HALF_PARTS (FORECAST_PARTS / 6.0)   /* half-life of a deviation */
#define TREND_PARTS (FORECAST_PARTS / 48.0) /* a trend is extended over this many parts */
#define NEWEST_WEIGHT 0.5                   /* weight of the last period in a part's mean */
#define DEVIATION_MAX 8.0                   /* limit of recent / curve */
#define CURVE_LEAST 1e-9 /* smaller values of the curve are not used for comparison */

void forecast_load_open(struct forecast_load *forecast, int64_t period_ns) {
    check(period_ns >= FORECAST_PARTS);
    *forecast = (struct forecast_load){.period_ns = period_ns};
}

static double part_ns(const struct forecast_load *forecast) {
    return (double)forecast->period_ns / FORECAST_PARTS;
}

static uint32_t forecast_load_part_at(const struct forecast_load *forecast, int64_t at_ns) {
    int64_t within = at_ns % forecast->period_ns;
    if (within < 0) within += forecast->period_ns;
    uint32_t part = (uint32_t)((double)within / part_ns(forecast));
    return part < FORECAST_PARTS ? part : FORECAST_PARTS - 1;
}

/* Merges a part into the mean of earlier periods, half a period after it, if at least half of it
 * was observed. Until then, new load is compared only with earlier periods. */
static void forecast_load_settle(struct forecast_load *forecast, struct forecast_part *part) {
    if (part->present_ns >= 0.5 * part_ns(forecast)) {
        double weight = part->periods ? NEWEST_WEIGHT : 1;
        for (uint32_t i = 0; i < FORECAST_STREAMS; i++)
            part->mean[i] += weight * (part->present[i] / part->present_ns * 1e9 - part->mean[i]);
        part->periods++;
    }
    for (uint32_t i = 0; i < FORECAST_STREAMS; i++)
        part->present[i] = 0;
    part->present_ns = 0;
}

/* Merges parts that ended at least half a period before this one begins. */
static void settle_behind(struct forecast_load *forecast, uint32_t part) {
    for (uint32_t behind = FORECAST_PARTS / 2; behind <= FORECAST_PARTS; behind++) {
        uint32_t index = (part + 2 * FORECAST_PARTS - behind) % FORECAST_PARTS;
        if (forecast->parts[index].present_ns > 0)
            forecast_load_settle(forecast, &forecast->parts[index]);
    }
}

static void forecast_load_follow(struct forecast_load *forecast, const double *rates,
                                 double passed_ns) {
    double kept = exp(-passed_ns / part_ns(forecast));
    double trend_kept = exp(-passed_ns / (4 * part_ns(forecast)));
    for (uint32_t i = 0; i < FORECAST_STREAMS; i++) {
        double before = forecast->recent[i];
        forecast->recent[i] = forecast->has_any ? kept * before + (1 - kept) * rates[i] : rates[i];
        double slope = forecast->has_any ? (forecast->recent[i] - before) / (passed_ns * 1e-9) : 0;
        forecast->trend[i] = trend_kept * forecast->trend[i] + (1 - trend_kept) * slope;
    }
}

void forecast_load_add(struct forecast_load *forecast, const double rates[FORECAST_STREAMS],
                       int64_t now_ns) {
    int64_t passed_ns = now_ns - forecast->last_ns;
    uint32_t part = forecast_load_part_at(forecast, now_ns),
             before = forecast_load_part_at(forecast, forecast->last_ns);
    if (forecast->last_ns && passed_ns <= 0) return;
    if (!forecast->last_ns) passed_ns = (int64_t)part_ns(forecast) / 4;
    if (forecast->last_ns && (part != before || passed_ns > (int64_t)part_ns(forecast)))
        settle_behind(forecast, part);
    forecast_load_follow(forecast, rates, (double)passed_ns);
    double counted_ns = fmin((double)passed_ns, part_ns(forecast));
    for (uint32_t i = 0; i < FORECAST_STREAMS; i++)
        forecast->parts[part].present[i] += rates[i] * counted_ns * 1e-9;
    forecast->parts[part].present_ns += counted_ns;
    forecast->last_ns = now_ns;
    forecast->has_any = true;
}

void forecast_load_teach(struct forecast_load *forecast, int64_t at_ns,
                         const double rates[FORECAST_STREAMS]) {
    struct forecast_part *part = &forecast->parts[forecast_load_part_at(forecast, at_ns)];
    for (uint32_t i = 0; i < FORECAST_STREAMS; i++)
        part->mean[i] = rates[i];
    part->periods++;
}

/* Returns false if nothing is known for that time. */
static bool curve_at(const struct forecast_load *forecast, uint32_t stream, int64_t at_ns,
                     double *rate_out) {
    double middle = part_ns(forecast) / 2;
    int64_t from_ns = at_ns - (int64_t)middle;
    uint32_t first = forecast_load_part_at(forecast, from_ns),
             second = (first + 1) % FORECAST_PARTS;
    const struct forecast_part *a = &forecast->parts[first], *b = &forecast->parts[second];
    if (!a->periods) a = b;
    if (!b->periods) b = a;
    if (!a->periods) return false;
    int64_t within = from_ns % forecast->period_ns;
    if (within < 0) within += forecast->period_ns;
    double share = (double)within / part_ns(forecast) - first;
    *rate_out = a->mean[stream] * (1 - share) + b->mean[stream] * share;
    return true;
}

static double continued(const struct forecast_load *forecast, uint32_t stream, double ahead_ns) {
    double most_ns = TREND_PARTS * part_ns(forecast);
    double rate =
        forecast->recent[stream] + forecast->trend[stream] * fmin(ahead_ns, most_ns) * 1e-9;
    return fmax(rate, 0);
}

double forecast_load_by(const struct forecast_load *forecast, enum forecast_way way,
                        uint32_t stream, int64_t at_ns) {
    double curve, present, ahead_ns = fmax((double)(at_ns - forecast->last_ns), 0);
    bool is_known = curve_at(forecast, stream, at_ns, &curve);
    if (is_known && (way == FORECAST_AS_EVER || !forecast->has_any)) return curve;
    if (!is_known || way == FORECAST_AS_NOW) return continued(forecast, stream, ahead_ns);
    /* `recent` lags by about a part, so compare it with the curve of that time */
    int64_t then_ns = forecast->last_ns - (int64_t)part_ns(forecast);
    if (!curve_at(forecast, stream, then_ns, &present) || present < CURVE_LEAST)
        return fmax(curve, continued(forecast, stream, ahead_ns));
    double deviation = fmin(forecast->recent[stream] / present, DEVIATION_MAX);
    double weight = exp2(-ahead_ns / (HALF_PARTS * part_ns(forecast)));
    return curve * (1 + (deviation - 1) * weight);
}

double forecast_load_at(const struct forecast_load *forecast, uint32_t stream, int64_t at_ns) {
    return forecast_load_by(forecast, forecast->way[stream], stream, at_ns);
}

double forecast_load_peak(const struct forecast_load *forecast, uint32_t stream, int64_t until_ns) {
    int64_t step_ns = (int64_t)(part_ns(forecast) / 2), from_ns = forecast->last_ns;
    double most = forecast_load_at(forecast, stream, until_ns);
    if (until_ns - from_ns > forecast->period_ns) until_ns = from_ns + forecast->period_ns;
    for (int64_t at_ns = from_ns; at_ns < until_ns; at_ns += step_ns)
        most = fmax(most, forecast_load_at(forecast, stream, at_ns));
    return most;
}
