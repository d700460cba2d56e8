/* SPDX-License-Identifier: Apache-2.0
 * A fleet's day from windows: between two changes of its load or its nodes a fleet is in a steady
 * state, so a window of seconds says what the whole segment is like. In a window one decode unit
 * and its share of the prefill units live in full detail, on that unit's share of the load; the rest
 * of the fleet is as many times that. The rules:
 *
 *   segments  the day is cut at each hour and at each change of the nodes; those with the same units
 *             whose loads differ by 3 % at most share a window. Within an hour in which the nodes
 *             change the load follows the decode units: an hour's tokens are known, not their course
 *   sample    1 decode unit of D; of P prefill units P / D, rounded up or down such that the
 *             day's prefill units are right on the whole; arrivals: 1 / D of the fleet's
 *   start     as many requests in the middle of their answers as make the segment's tokens at the
 *             speed that the step clock says (day_standing), what the clock was off by in the
 *             window before counted in; and those that end before the first arrivals answer, as many
 *             as in the window before (day_short_seconds)
 *   scaling   a window's prefill counters stand for the segment's input tokens, its decode counters
 *             for the segment's output tokens: each by (tokens of the segment) / (tokens of the
 *             window)
 *
 * `whole` takes all D and P units instead, which shows whether the rules hold.
 */
#ifndef SIMULATE_TWIN_DAY_H
#define SIMULATE_TWIN_DAY_H

#include "simulate/twin/day_load.h"
#include "simulate/twin/twin.h"

#define DAY_HOURS 24
#define DAY_STEPS_MAX 64
#define DAY_SEGMENTS_MAX (DAY_HOURS + DAY_STEPS_MAX)

struct day_step { /* of the nodes: from that hour on */
    double hour;
    uint32_t decode_units, prefill_units;
};

struct day_options {
    double load[DAY_HOURS];               /* tokens of each hour; in any unit */
    struct day_step steps[DAY_STEPS_MAX]; /* [step_count] ascending; the first at hour 0 */
    uint32_t step_count;
    double input_tokens, output_tokens; /* of the whole day */
    struct day_moments moments;
    double settle_s, warm_s, measure_s; /* of a window; the warm time includes the settling */
    double waiting_s; /* so many seconds' arrivals have no token yet when a window begins */
};

struct day_segment {
    double hour, hours;             /* when it begins; how long it is */
    double input_rate, output_rate; /* tokens a second, of the fleet */
    uint32_t decode_units, prefill_units;
    uint32_t sample_prefill_units; /* beside one decode unit */
};

struct day_window {                   /* what a window was, beside its report */
    double share;                     /* of the fleet's load that came */
    double standing_rank;             /* requests of a decode rank at the start */
    double input_scale, output_scale; /* seconds' worth: what its counters are multiplied by */
};

/* segments_out[DAY_SEGMENTS_MAX]; returns how many. The day's options are valid. */
uint32_t day_segments(const struct day_options *day, struct day_segment *segments_out);

/* Seconds of the clock's steps with so many answers on each rank (it need not be a whole number) of
 * kv_mean positions each; with a draft for each, or without. */
double day_step_seconds(struct step_clock *clock, uint32_t ranks, enum overlap_kind overlap,
                        double kv_mean, double rows, bool drafts);

/* Requests that a rank of the decode unit runs when the unit makes `output_rate` tokens a second
 * with answers' tokens of `kv_mean` positions each: by bisection of the clock's steps, which take
 * `stretch` times as long. `acceptance`: of drafts, one for each answer; 0: nothing is drafted. More
 * than rows_max are never meant. */
double day_standing(struct step_clock *clock, uint32_t ranks, uint32_t rows_max,
                    enum overlap_kind overlap, double kv_mean, double output_rate, double stretch,
                    double acceptance);

/* A window's answers end at once, `ends` a second of a rank; the first that take their places come
 * when prompts are through, more of them than waiting_s foresees or fewer. So the requests that it
 * begins with are more than those that it runs in its measured time: by so many seconds of ends.
 * More than the warm time's can have no such cause. */
double day_short_seconds(const struct day_options *day, double begun, double ran, double ends);

/* The window's options from the fleet's: kinds[0] are its prefill units, kinds[1] its decode units.
 * `load_out` is the source's, and has to live as long as the run. */
void day_window_options(const struct day_options *day, const struct day_segment *segment,
                        const struct twin_options *fleet, bool whole, double standing_rank,
                        const struct day_lengths *lengths, struct day_load *load_out,
                        struct twin_options *options_out);

#endif
