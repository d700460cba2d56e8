/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/scaling/scaled_day.h"

#include "base/check.h"

#define S ((int64_t)1000000000)
#define MINUTE (60 * S)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define OUTPUT_A_DAY 168e9
#define COMPUTED_A_DAY 266e9
#define ANSWER_TOKENS 1211.0 /* homogeneous requests of the published KV a token */
#define CROWD_FACTOR 3
#define SURPRISE_FACTOR 1.5
#define LEARN_DAYS 2

/* Thousands of dollars from midnight on (UTC+8), read from the published chart; the day that was
 * published began at noon. */
static const double incomes[24] = {21.7, 18.0, 13.1, 8.0,  6.4,  6.4,  8.0,  13.7,
                                   23.1, 29.5, 30.4, 29.9, 27.0, 28.5, 30.4, 30.9,
                                   30.4, 27.8, 26.8, 29.6, 30.7, 30.8, 31.0, 29.8};

const char *scaled_load_name(enum scaled_load load) {
    static const char *const names[SCALED_LOAD_COUNT] = {[SCALED_PLAIN] = "the published day",
                                                         [SCALED_NOISE] = "noise of a twentieth",
                                                         [SCALED_CROWD] = "a crowd, three times",
                                                         [SCALED_NO_MORNING] = "no morning",
                                                         [SCALED_SURPRISE] = "half as much again"};
    check(load < SCALED_LOAD_COUNT);
    return names[load];
}

/* Straight lines between the middles of hours. */
double scaled_day_arrivals(int64_t at_ns) {
    double sum = 0, hour = (double)(at_ns % DAY) / (double)HOUR - 0.5;
    for (int i = 0; i < 24; i++)
        sum += incomes[i];
    if (hour < 0) hour += 24;
    int first = (int)hour;
    double share = hour - first;
    double income = incomes[first] * (1 - share) + incomes[(first + 1) % 24] * share;
    return income / (sum / 24) * OUTPUT_A_DAY / 86400 / ANSWER_TOKENS;
}

static double arrivals(const void *load, int64_t at_ns) {
    const struct scaled_day *day = load;
    double rate = scaled_day_arrivals(at_ns);
    int64_t within_ns = at_ns % DAY;
    bool is_last = at_ns >= (LEARN_DAYS + 1) * DAY;
    if (day->load == SCALED_SURPRISE && !is_last) return rate / SURPRISE_FACTOR;
    if (!is_last) return rate;
    if (day->load == SCALED_CROWD && within_ns >= 4 * HOUR && within_ns < 4 * HOUR + HOUR / 2)
        return CROWD_FACTOR * rate;
    if (day->load == SCALED_NO_MORNING && within_ns >= 6 * HOUR && within_ns < 12 * HOUR)
        return scaled_day_arrivals(6 * HOUR);
    return rate;
}

static struct scale_rule_side side_of(const struct scaled_day *day, uint32_t side) {
    double prefill_rate = day->unit_rate * COMPUTED_A_DAY / OUTPUT_A_DAY / 3;
    if (side == SCALE_DECODE)
        return (struct scale_rule_side){.unit_rate = day->unit_rate,
                                        .unit_nodes = 18,
                                        .least = 2,
                                        .most = day->as_published ? 9 : 14,
                                        .group = 1};
    return (struct scale_rule_side){.unit_rate = prefill_rate,
                                    .unit_nodes = 4,
                                    .least = 2,
                                    .most = day->as_published ? 29 : 44,
                                    .beside = day->as_published ? 2 : 0,
                                    .group = day->as_published ? 3 : 1};
}

void scaled_day_options(const struct scaled_day *day, struct scaled_options *options_out) {
    *options_out = (struct scaled_options){
        .manager = {.rule = {.sides = {side_of(day, SCALE_PREFILL), side_of(day, SCALE_DECODE)},
                             .reserve = day->reserve,
                             .give_back = 0.05,
                             .rest_ns = HOUR,
                             .start_ns = 5 * MINUTE},
                    .calendar = {.period_ns = DAY, .price = 1},
                    .nodes = day->as_published ? 278 : 428,
                    .ttft_limit_ns = 2 * S,
                    .tpot_limit_ns = S / 20,
                    .missed_share = 0.01,
                    .decide_ns = 10 * S,
                    .drain_ns_max = 5 * MINUTE,
                    .start_ns_max = 20 * MINUTE,
                    .starts_at_once = 40},
        .rule = day->rule,
        .arrivals = arrivals,
        .load = day,
        .prompt_tokens = ANSWER_TOKENS * COMPUTED_A_DAY / OUTPUT_A_DAY,
        .answer_tokens = ANSWER_TOKENS,
        .noise = day->load == SCALED_NOISE ? 0.05 : 0,
        .noise_ns = 5 * MINUTE,
        .tick_ns = 5 * S,
        .begin_ns = DAY,
        .measure_ns = (LEARN_DAYS + 1) * DAY,
        .end_ns = (LEARN_DAYS + 2) * DAY,
        .seed = day->seed,
    };
}

/* From noon: 278 to midnight, then steps of 30 down to 68 and up again. */
uint32_t scaled_day_published(uint32_t hour) {
    static const uint16_t nodes[24] = {218, 188, 158, 68,  68,  68,  98,  188, 218, 278, 278, 278,
                                       278, 278, 278, 278, 278, 278, 278, 278, 278, 278, 278, 278};
    return nodes[hour % 24];
}
