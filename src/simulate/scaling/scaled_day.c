/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/scaling/scaled_day.h"

#include <math.h>

#include "base/check.h"

#define S ((int64_t)1000000000)
#define MINUTE (60 * S)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define OUTPUT_A_DAY 168e9
#define COMPUTED_A_DAY 266e9
/* Tokens of an answer if all requests are equal and have the published KV per token. */
#define ANSWER_TOKENS 1211.0
#define CROWD_FACTOR 3
#define SURPRISE_FACTOR 1.5
#define LEARN_DAYS 2
#define RAMP_FACTOR 0.4
#define WEEKEND_FACTOR 0.6
#define TRACE_PARTS 58 /* minutes of a published hour */

/* Income in thousands of dollars by hour from midnight on (UTC+8), read from the published chart.
 * The published day began at noon. */
static const double incomes[24] = {21.7, 18.0, 13.1, 8.0,  6.4,  6.4,  8.0,  13.7,
                                   23.1, 29.5, 30.4, 29.9, 27.0, 28.5, 30.4, 30.9,
                                   30.4, 27.8, 26.8, 29.6, 30.7, 30.8, 31.0, 29.8};

/* Tokens in each minute, in hundredths of their mean: AzureLLMInferenceTrace_conv from 2023-11-16
 * 18:15:46 on (CC-BY 4.0), and Mooncake's conversation trace (Apache-2.0). */
static const uint8_t azure_answers[TRACE_PARTS] = {
    63,  109, 117, 105, 127, 119, 107, 106, 111, 96,  109, 98,  115, 104, 113,
    115, 110, 110, 116, 100, 116, 107, 106, 95,  94,  93,  102, 102, 85,  73,
    83,  97,  83,  87,  101, 95,  95,  91,  105, 100, 105, 96,  81,  104, 90,
    108, 95,  99,  86,  100, 96,  106, 86,  98,  95,  104, 98,  90,
};
static const uint8_t azure_prompts[TRACE_PARTS] = {
    45,  65,  87,  109, 91,  85,  89,  75,  104, 104, 101, 102, 111, 104, 76,  80, 77, 80, 98, 106,
    110, 108, 142, 145, 140, 147, 163, 178, 174, 167, 163, 190, 162, 111, 103, 87, 94, 73, 82, 71,
    73,  75,  106, 112, 114, 114, 103, 75,  60,  67,  67,  69,  62,  63,  60,  61, 58, 58,
};
static const uint8_t mooncake_answers[TRACE_PARTS] = {
    83,  96,  102, 85,  96,  74,  67,  98,  88,  95,  107, 87,  91,  107, 83,
    76,  107, 84,  85,  111, 98,  94,  111, 98,  84,  123, 82,  114, 94,  108,
    124, 99,  94,  92,  117, 101, 139, 90,  109, 105, 97,  114, 101, 120, 109,
    97,  94,  111, 102, 107, 105, 111, 108, 102, 91,  117, 104, 117,
};
static const uint8_t mooncake_prompts[TRACE_PARTS] = {
    90, 108, 115, 93,  100, 102, 92,  109, 90,  97,  108, 93,  105, 101, 94,
    99, 97,  105, 97,  100, 109, 97,  115, 98,  93,  106, 79,  103, 98,  100,
    99, 105, 78,  85,  100, 104, 110, 80,  102, 112, 93,  100, 81,  103, 98,
    96, 86,  99,  115, 112, 128, 110, 90,  97,  103, 113, 104, 105,
};

const char *scaled_day_load_name(enum scaled_load load) {
    static const char *const names[SCALED_LOAD_COUNT] = {
        [SCALED_PLAIN] = "the published day",     [SCALED_NOISE] = "noise of a twentieth",
        [SCALED_CROWD] = "a crowd, three times",  [SCALED_NO_MORNING] = "no morning",
        [SCALED_SURPRISE] = "half as much again", [SCALED_SLOW_NOISE] = "noise of a tenth",
        [SCALED_RAMP] = "a crowd by day",         [SCALED_EARLY] = "two hours early",
        [SCALED_WEEKEND] = "a weekend",           [SCALED_CONVERSATIONS] = "Azure's hour",
        [SCALED_MOONCAKE] = "Mooncake's hour"};
    check(load < SCALED_LOAD_COUNT);
    return names[load];
}

/* Interpolates linearly between the middles of hours. */
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

/* Interpolates linearly between the middles of minutes. */
static double trace_at(const uint8_t *parts, int64_t at_ns) {
    double at = (double)(at_ns % DAY) / (double)DAY * TRACE_PARTS - 0.5;
    if (at < 0) at += TRACE_PARTS;
    int first = (int)at;
    double share = at - first;
    return (parts[first] * (1 - share) + parts[(first + 1) % TRACE_PARTS] * share) / 100;
}

/* The ramp from 15:00 to 17:00, which rises and falls within ten minutes. */
static double ramp(int64_t within_ns) {
    double come = (double)(within_ns - 15 * HOUR) / (double)(10 * MINUTE);
    double go = (double)(17 * HOUR - within_ns) / (double)(10 * MINUTE);
    return fmax(0, fmin(1, fmin(come, go)));
}

static double held_out(const struct scaled_day *day, int64_t at_ns) {
    double mean = OUTPUT_A_DAY / 86400 / ANSWER_TOKENS;
    switch (day->load) {
    case SCALED_RAMP:
        return scaled_day_arrivals(at_ns) * (1 + RAMP_FACTOR * ramp(at_ns % DAY));
    case SCALED_EARLY:
        return scaled_day_arrivals(at_ns + 2 * HOUR);
    case SCALED_WEEKEND:
        return scaled_day_arrivals(at_ns - 2 * HOUR) * WEEKEND_FACTOR;
    case SCALED_CONVERSATIONS:
        return mean * trace_at(azure_answers, at_ns);
    case SCALED_MOONCAKE:
        return mean * trace_at(mooncake_answers, at_ns);
    default:
        return scaled_day_arrivals(at_ns);
    }
}

/* The factor on prompt lengths, from the prompts and answers of the trace. */
static double prompts(const void *load, int64_t at_ns) {
    const struct scaled_day *day = load;
    if (at_ns < (LEARN_DAYS + 1) * DAY) return 1;
    if (day->load == SCALED_CONVERSATIONS)
        return trace_at(azure_prompts, at_ns) / trace_at(azure_answers, at_ns);
    if (day->load == SCALED_MOONCAKE)
        return trace_at(mooncake_prompts, at_ns) / trace_at(mooncake_answers, at_ns);
    return 1;
}

static double arrivals(const void *load, int64_t at_ns) {
    const struct scaled_day *day = load;
    double rate = scaled_day_arrivals(at_ns);
    int64_t within_ns = at_ns % DAY;
    bool is_last = at_ns >= (LEARN_DAYS + 1) * DAY;
    if (day->load == SCALED_SURPRISE && !is_last) return rate / SURPRISE_FACTOR;
    if (!is_last) return rate;
    if (day->load >= SCALED_HELD_OUT) return held_out(day, at_ns);
    if (day->load == SCALED_CROWD && within_ns >= 4 * HOUR && within_ns < 4 * HOUR + HOUR / 2)
        return CROWD_FACTOR * rate;
    if (day->load == SCALED_NO_MORNING && within_ns >= 6 * HOUR && within_ns < 12 * HOUR)
        return scaled_day_arrivals(6 * HOUR);
    return rate;
}

static struct scale_rule_side scaled_day_side_of(const struct scaled_day *day, uint32_t side) {
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
                                    .extra = day->as_published ? 2 : 0,
                                    .group = day->as_published ? 3 : 1};
}

void scaled_day_options(const struct scaled_day *day, struct scaled_options *options_out) {
    *options_out = (struct scaled_options){
        .manager = {.rule = {.sides = {scaled_day_side_of(day, SCALE_PREFILL),
                                       scaled_day_side_of(day, SCALE_DECODE)},
                             .reserve = day->reserve,
                             .give_back = 0.05,
                             .rest_ns = 45 * MINUTE,
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
        .prompts = prompts,
        .noise = day->load == SCALED_NOISE        ? 0.05
                 : day->load == SCALED_SLOW_NOISE ? 0.1
                                                  : 0,
        .noise_ns = day->load == SCALED_SLOW_NOISE ? 30 * MINUTE : 5 * MINUTE,
        .tick_ns = 5 * S,
        .begin_ns = DAY,
        .measure_ns = (LEARN_DAYS + 1) * DAY,
        .end_ns = (LEARN_DAYS + 2) * DAY,
        .seed = day->seed,
    };
}

/* From noon on: 278 nodes until midnight, then down to 68 in steps of 30, and up again. */
uint32_t scaled_day_published(uint32_t hour) {
    static const uint16_t nodes[24] = {218, 188, 158, 68,  68,  68,  98,  188, 218, 278, 278, 278,
                                       278, 278, 278, 278, 278, 278, 278, 278, 278, 278, 278, 278};
    return nodes[hour % 24];
}
