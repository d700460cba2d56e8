/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/day.h"

#include "base/check.h"

#define BISECTIONS 24
#define CLOCK_STEPS 4 /* number of steps to average, because expert loads vary */
#define SECONDS 1e9

/* ---- segments ---- */

/* The hour of the next change of the load or of the units after `hour`. */
static double next_change(const struct day_options *day, double hour) {
    double next = (double)(uint32_t)hour + 1;
    for (uint32_t i = 0; i < day->step_count; i++)
        if (day->steps[i].hour > hour && day->steps[i].hour < next) next = day->steps[i].hour;
    return next;
}

static const struct day_step *step_at(const struct day_options *day, double hour) {
    const struct day_step *step = &day->steps[0];
    for (uint32_t i = 0; i < day->step_count; i++)
        if (day->steps[i].hour <= hour) step = &day->steps[i];
    return step;
}

/* Decode units times hours, within the hour of the day that begins at `hour`. */
static double unit_hours_of(const struct day_options *day, uint32_t hour) {
    double sum = 0;
    for (double at = hour; at < hour + 1.0;) {
        double next = next_change(day, at);
        sum += step_at(day, at)->decode_units * (next - at);
        at = next;
    }
    return sum;
}

uint32_t day_segments(const struct day_options *day, struct day_segment *segments_out) {
    double sum = 0, owed = 0; /* owed: prefill unit hours that the sample lacks so far */
    uint32_t count = 0;
    for (uint32_t i = 0; i < DAY_HOURS; i++)
        sum += day->load[i];
    for (double hour = 0; hour < DAY_HOURS;) {
        const struct day_step *step = step_at(day, hour);
        double hours = next_change(day, hour) - hour;
        uint32_t whole = (uint32_t)hour;
        double follows = step->decode_units / unit_hours_of(day, whole);
        double part =
            day->load[whole] / sum / 3600 * follows; /* share of the day's tokens, per second */
        double wanted = (double)step->prefill_units / step->decode_units;
        uint32_t taken = (uint32_t)wanted;
        owed += (wanted - taken) * hours;
        if (owed > hours / 2) {
            taken++;
            owed -= hours;
        }
        check(count < DAY_SEGMENTS_MAX);
        segments_out[count++] = (struct day_segment){.hour = hour,
                                                     .hours = hours,
                                                     .input_rate = day->input_tokens * part,
                                                     .output_rate = day->output_tokens * part,
                                                     .decode_units = step->decode_units,
                                                     .prefill_units = step->prefill_units,
                                                     .sample_prefill_units = taken};
        hour += hours;
    }
    return count;
}

/* ---- the state at the start ---- */

double day_step_seconds(struct step_clock *clock, uint32_t ranks, enum overlap_kind overlap,
                        double kv_mean, double rows, bool drafts) {
    struct step_share shares[LIMIT_RANKS];
    double ns = 0;
    for (int step = 0; step < CLOCK_STEPS; step++) {
        for (uint32_t rank = 0; rank < ranks; rank++) {
            /* Spreads the fractional part of `rows` over the ranks. */
            uint32_t own = (uint32_t)(rows + ((double)rank + 0.5) / ranks);
            shares[rank] = (struct step_share){.slowness = 1};
            step_load_add_answers(&shares[rank].load, own, drafts ? 2 * own : own, kv_mean);
        }
        ns += (double)step_clock_step(clock, shares, overlap, 0).ns;
    }
    return ns / CLOCK_STEPS / SECONDS;
}

double day_standing(struct step_clock *clock, uint32_t ranks, uint32_t rows_max,
                    enum overlap_kind overlap, double kv_mean, double output_rate, double stretch,
                    double acceptance) {
    double low = 0, high = rows_max;
    check(ranks <= LIMIT_RANKS);
    for (int i = 0; i < BISECTIONS; i++) {
        double rows = (low + high) / 2;
        double seconds =
            day_step_seconds(clock, ranks, overlap, kv_mean, rows, acceptance > 0) * stretch;
        *(rows * (1 + acceptance) * ranks / seconds < output_rate ? &low : &high) = rows;
    }
    return (low + high) / 2;
}

double day_short_seconds(const struct day_options *day, double begun, double ran, double ends) {
    double seconds = (begun - ran) / ends;
    return seconds < 0 ? 0 : seconds > day->warm_s ? day->warm_s : seconds;
}

/* ---- a window ---- */

void day_window_options(const struct day_options *day, const struct day_segment *segment,
                        const struct simulator_options *fleet, bool whole, double standing_rank,
                        const struct day_lengths *lengths, struct day_load *load_out,
                        struct simulator_options *options_out) {
    struct simulator_options options = *fleet;
    double share = whole ? 1 : 1.0 / segment->decode_units;
    check(fleet->kind_count == 2);
    options.kinds[0].count = whole ? segment->prefill_units : segment->sample_prefill_units;
    options.kinds[1].count = whole ? segment->decode_units : 1;
    options.settle_ns = (int64_t)(day->settle_s * SECONDS);
    options.warm_ns = (int64_t)(day->warm_s * SECONDS);
    options.measure_ns = (int64_t)(day->measure_s * SECONDS);
    double rate = segment->input_rate / lengths->prompt_mean * share;
    *load_out =
        (struct day_load){.lengths = *lengths,
                          .rate = rate,
                          .standing_count = (uint32_t)(standing_rank * options.kinds[1].ranks *
                                                       options.kinds[1].count),
                          .waiting_count = (uint32_t)(rate * day->waiting_s),
                          .begin_ns = options.settle_ns,
                          .end_ns = options.warm_ns + options.measure_ns,
                          .seed = fleet->seed + (uint64_t)(segment->hour * 3600)};
    options.seed = load_out->seed;
    options.source = day_load_source(load_out);
    *options_out = options;
}
