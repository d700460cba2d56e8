/* SPDX-License-Identifier: Apache-2.0
 * Simulates a fleet's day in windows. Between two changes of its load or its nodes, a fleet is in a
 * steady state, so a window of a few seconds represents the whole segment. In a window one decode
 * unit and its share of the prefill units are simulated in full detail, under that unit's share of
 * the load. The rest of the fleet is a multiple of it. The rules:
 *
 *   segments  the day is cut at each hour and at each change of the number of nodes. Segments with
 *             the same units share a window if their loads differ by at most 3 %. Within an hour in
 *             which the nodes change, the load follows the decode units, since only the tokens of
 *             the hour are known
 *   sample    1 of D decode units, and P / D of P prefill units, rounded up or down such that the
 *             total over the day is right; 1 / D of the arrivals of the fleet
 *   start     as many requests in the middle of their answers as produce the segment's tokens at
 *             the speed of the step clock (day_standing), corrected by the clock's error in the
 *             previous window. Requests are added for those that end before the first arrivals
 *             get tokens, as many as in the previous window (day_short_seconds)
 *   scaling   the prefill counters of a window represent the segment's input tokens, its decode
 *             counters the segment's output tokens: each is multiplied by (tokens of the segment)
 *             / (tokens of the window)
 *
 * With `whole`, all D and P units are simulated instead, to validate the rules.
 */
#pragma once

#include "simulate/simulator/day_load.h"
#include "simulate/simulator/simulator.h"

#define DAY_HOURS 24
#define DAY_STEPS_MAX 64
#define DAY_SEGMENTS_MAX (DAY_HOURS + DAY_STEPS_MAX)

struct day_step { /* the units from this hour on */
    double hour;
    uint32_t decode_units, prefill_units;
};

struct day_options {
    double load[DAY_HOURS];               /* tokens of each hour, in any unit */
    struct day_step steps[DAY_STEPS_MAX]; /* [step_count], ascending; the first is at hour 0 */
    uint32_t step_count;
    double input_tokens, output_tokens; /* of the whole day */
    struct day_moments moments;
    double settle_s, warm_s, measure_s; /* of a window; warm_s includes settle_s */
    double waiting_s; /* at the start, arrivals of this many seconds have no token yet */
};

struct day_segment {
    double hour, hours;             /* its start and length */
    double input_rate, output_rate; /* tokens per second of the fleet */
    uint32_t decode_units, prefill_units;
    uint32_t sample_prefill_units; /* for one decode unit */
};

/* Writes segments_out[DAY_SEGMENTS_MAX] and returns their number. `day` must be valid. */
uint32_t day_segments(const struct day_options *day, struct day_segment *segments_out);

/* The clock's time of a step, in seconds, with `rows` answers on each rank (possibly a fraction)
 * that read kv_mean positions each, with or without one draft for each. */
double day_step_seconds(struct step_clock *clock, uint32_t ranks, enum overlap_kind overlap,
                        double kv_mean, double rows, bool drafts);

/* The number of requests that a rank of the decode unit runs when the unit produces `output_rate`
 * tokens per second and each token reads `kv_mean` positions; at most rows_max. It is found by
 * bisection, with the clock's step times multiplied by `stretch`. `acceptance` is that of drafts,
 * one for each answer; 0: no drafts. */
double day_standing(struct step_clock *clock, uint32_t ranks, uint32_t rows_max,
                    enum overlap_kind overlap, double kv_mean, double output_rate, double stretch,
                    double acceptance);

/* From the start of a window, answers end at a rate of `ends` per second and rank. Their places are
 * taken when prompts are computed, which may be more or fewer than waiting_s assumes. So a window
 * begins with more requests (`begun`) than it runs in its measured time (`ran`). Returns the
 * difference in seconds of ends, clamped to 0..warm_s, since a larger one has another cause. */
double day_short_seconds(const struct day_options *day, double begun, double ran, double ends);

/* Derives the options of a window from those of the fleet: kinds[0] are the prefill units, kinds[1]
 * the decode units. The source uses `load_out`, which must live as long as the run. */
void day_window_options(const struct day_options *day, const struct day_segment *segment,
                        const struct simulator_options *fleet, bool whole, double standing_rank,
                        const struct day_lengths *lengths, struct day_load *load_out,
                        struct simulator_options *options_out);
