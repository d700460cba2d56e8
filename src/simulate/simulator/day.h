/* SPDX-License-Identifier: Apache-2.0
 * A fleet's day, simulated by windows. Between two changes of its load or its nodes a fleet is in a
 * steady state, so a window of a few seconds represents the whole segment. In a window one decode
 * unit and its share of the prefill units are simulated in full detail, under that unit's share of
 * the load. The rest of the fleet is a multiple of it. The rules:
 *
 *   segments  the day is cut at each hour and at each change of the number of nodes. Segments with
 *             the same units share a window if their loads differ by 3 % at most. Within an hour in
 *             which the nodes change the load follows the decode units, as only the hour's tokens are
 *             known
 *   sample    1 decode unit of D; of P prefill units P / D, rounded up or down such that the
 *             day's prefill units are right on the whole; arrivals: 1 / D of the fleet's
 *   start     as many requests in the middle of their answers as produce the segment's tokens at
 *             the speed of the step clock (day_standing), corrected by the clock's error in the
 *             previous window; in addition those that end before the first arrivals get tokens,
 *             as many as in the previous window (day_short_seconds)
 *   scaling   a window's prefill counters represent the segment's input tokens, its decode
 *             counters the segment's output tokens: each is multiplied by (tokens of the segment)
 *             / (tokens of the window)
 *
 * `whole` simulates all D and P units instead, to validate the rules.
 */
#pragma once

#include "simulate/simulator/day_load.h"
#include "simulate/simulator/simulator.h"

#define DAY_HOURS 24
#define DAY_STEPS_MAX 64
#define DAY_SEGMENTS_MAX (DAY_HOURS + DAY_STEPS_MAX)

struct day_step { /* the nodes from that hour on */
    double hour;
    uint32_t decode_units, prefill_units;
};

struct day_options {
    double load[DAY_HOURS];               /* tokens of each hour, in any unit */
    struct day_step steps[DAY_STEPS_MAX]; /* [step_count] ascending; the first at hour 0 */
    uint32_t step_count;
    double input_tokens, output_tokens; /* of the whole day */
    struct day_moments moments;
    double settle_s, warm_s, measure_s; /* of a window; the warm time includes the settling */
    double waiting_s; /* arrivals of this many seconds have no token yet at the start */
};

struct day_segment {
    double hour, hours;             /* its begin and its length */
    double input_rate, output_rate; /* tokens per second of the fleet */
    uint32_t decode_units, prefill_units;
    uint32_t sample_prefill_units; /* for one decode unit */
};

/* Writes segments_out[DAY_SEGMENTS_MAX] and returns how many. The day's options must be valid. */
uint32_t day_segments(const struct day_options *day, struct day_segment *segments_out);

/* Seconds that the clock's steps take with `rows` answers on each rank (it need not be a whole
 * number), of kv_mean positions each, with or without a draft for each. */
double day_step_seconds(struct step_clock *clock, uint32_t ranks, enum overlap_kind overlap,
                        double kv_mean, double rows, bool drafts);

/* Requests that a rank of the decode unit runs when the unit produces `output_rate` tokens a second
 * and each token reads `kv_mean` positions. Found by bisection of the clock's step times,
 * multiplied by `stretch`. `acceptance`: of drafts, one for each answer; 0: no drafts. The result
 * is rows_max at most. */
double day_standing(struct step_clock *clock, uint32_t ranks, uint32_t rows_max,
                    enum overlap_kind overlap, double kv_mean, double output_rate, double stretch,
                    double acceptance);

/* A window's answers end from its start on, `ends` per second and rank. Their places are taken once
 * prompts are computed, which may be more or fewer prompts than waiting_s assumes. A window
 * therefore begins with more requests than it runs in its measured time. Returns the difference in
 * seconds of ends: 0 at least and warm_s at most, as a larger difference has another cause. */
double day_short_seconds(const struct day_options *day, double begun, double ran, double ends);

/* Derives the window's options from the fleet's: kinds[0] are its prefill units, kinds[1] its
 * decode units. The source uses `load_out`, which must live as long as the run. */
void day_window_options(const struct day_options *day, const struct day_segment *segment,
                        const struct simulator_options *fleet, bool whole, double standing_rank,
                        const struct day_lengths *lengths, struct day_load *load_out,
                        struct simulator_options *options_out);
