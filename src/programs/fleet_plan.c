/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/fleet_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "host/fleet/fleet_folder.h"
#include "simulate/scaling/scaled_bound.h"
#include "simulate/scaling/scaled_day.h"

#define LIVED_DAYS 3    /* two for learning, one that is reported */
#define PARTS_LEAST 144 /* of a day's parts that a history must have */
#define DAY_S 86400.0
#define TOKENS 1000.0 /* of a prompt and of an answer in a day of DAY_S, fewer in a shorter one */
#define RESERVE 0.02  /* in addition to the margin for the load's own noise */

static enum status run(const struct scaled_options *options, struct scaled_outcome *outcome_out,
                       struct error *error) {
    struct arena arena;
    void *memory = malloc(scaled_world_bytes());
    if (!memory) return error_set(error, STATUS_NO_MEMORY, "no memory for a fleet in virtual time");
    arena_over(&arena, memory, scaled_world_bytes());
    enum status status = scaled_world_run(&arena, options, outcome_out);
    free(memory);
    return status ? error_set(error, status, "no memory for a fleet in virtual time") : STATUS_OK;
}

static double missed(const struct scaled_outcome *outcome) {
    return 100 * (double)outcome->missed_windows / (double)outcome->windows;
}

/* ---- the next day ---- */

struct plan_curve { /* tokens a second by part of the day */
    int64_t period_ns;
    double decode[FORECAST_PARTS];
    double prefill_share; /* prompt tokens per output token */
    double tokens;        /* of an answer; in proportion to the day, like drain times */
    uint32_t known;
};

static double curve_arrivals(const void *load, int64_t at_ns) {
    const struct plan_curve *curve = load;
    double part = (double)(at_ns % curve->period_ns) / (double)curve->period_ns * FORECAST_PARTS;
    return curve->decode[(uint32_t)part % FORECAST_PARTS] / curve->tokens;
}

/* Reads the day's curve. The last of several days is used. A part without a line equals the one
 * before it. */
static enum status read_curve(const struct fleet_file *file, struct plan_curve *curve,
                              struct error *error) {
    char path[FLEET_PATH_BYTES], line[256];
    double at_s, rates[SCALE_SIDES], prefills = 0, decodes = 0;
    bool known[FORECAST_PARTS] = {false};
    curve->period_ns = file->manager.calendar.period_ns;
    curve->tokens = TOKENS * (double)curve->period_ns / (DAY_S * 1e9);
    snprintf(path, sizeof path, "%.400s/history.csv", file->folder);
    FILE *history = fopen(path, "re");
    while (history && fgets(line, sizeof line, history))
        if (fleet_folder_read_history(line, &at_s, rates)) {
            double within = fmod(at_s * 1e9, (double)curve->period_ns) / (double)curve->period_ns;
            uint32_t part = (uint32_t)(within * FORECAST_PARTS) % FORECAST_PARTS;
            curve->decode[part] = rates[SCALE_DECODE];
            curve->known += !known[part];
            known[part] = true;
            prefills += rates[SCALE_PREFILL];
            decodes += rates[SCALE_DECODE];
        }
    if (history) fclose(history);
    if (curve->known < PARTS_LEAST || decodes <= 0)
        return error_set(error, STATUS_NOT_FOUND,
                         "%.300s: a history of half a day is needed, %u of %d parts are known",
                         file->folder, curve->known, FORECAST_PARTS);
    curve->prefill_share = prefills / decodes;
    for (uint32_t i = 0; i < 2 * FORECAST_PARTS; i++) {
        uint32_t part = i % FORECAST_PARTS, before = (part + FORECAST_PARTS - 1) % FORECAST_PARTS;
        if (!known[part] && known[before]) curve->decode[part] = curve->decode[before];
        known[part] |= known[before];
    }
    return STATUS_OK;
}

static void print_day(const struct fleet_file *file, const struct plan_curve *curve,
                      const struct scaled_outcome *outcome) {
    printf("%-6s %14s %14s %6s\n", "hour", "prompts/s", "answers/s", "nodes");
    for (uint32_t hour = 0; hour < 24; hour++) {
        uint32_t part = hour * FORECAST_PARTS / 24 + FORECAST_PARTS / 48;
        printf("%02u:30 %14.1f %14.1f %6u\n", hour, curve->decode[part] * curve->prefill_share,
               curve->decode[part], outcome->hour_nodes[hour]);
    }
    double day_hours = (double)file->manager.calendar.period_ns / 3.6e12;
    printf("\nprompts and answers in tokens; %.2f nodes on average (%.2f node-hours a day), %u at "
           "most\n%llu starts, limits missed in %.2f %% of windows of %.3g s\n",
           outcome->nodes_mean, outcome->nodes_mean * day_hours, outcome->nodes_max,
           (unsigned long long)outcome->starts / LIVED_DAYS, missed(outcome),
           day_hours * 3600 / 17280);
}

enum status fleet_plan_day(const struct fleet_file *file, struct error *error) {
    struct plan_curve curve = {.period_ns = 0};
    struct scaled_outcome outcome;
    enum status status = read_curve(file, &curve, error);
    if (status) return status;
    int64_t day_ns = curve.period_ns;
    struct scaled_options options = {.manager = file->manager,
                                     .rule = SCALED_MANAGER,
                                     .arrivals = curve_arrivals,
                                     .load = &curve,
                                     .prompt_tokens = curve.tokens * curve.prefill_share,
                                     .answer_tokens = curve.tokens,
                                     .tick_ns = day_ns / 17280,
                                     .begin_ns = day_ns,
                                     .measure_ns = LIVED_DAYS * day_ns,
                                     .end_ns = (LIVED_DAYS + 1) * day_ns};
    status = run(&options, &outcome, error);
    if (!status) print_day(file, &curve, &outcome);
    return status;
}

/* ---- the published day ---- */

static enum status fleet_plan_live(struct scaled_day day, struct scaled_outcome *outcome_out,
                                   struct error *error) {
    struct scaled_options options;
    scaled_day_options(&day, &options);
    options.load = &day;
    return run(&options, outcome_out, error);
}

static enum status print_nodes(struct error *error) {
    struct scaled_outcome published, own;
    struct scaled_day day = {
        .as_published = true, .unit_rate = SCALED_DAY_UNIT_RATE, .rule = SCALED_MANAGER};
    enum status status = fleet_plan_live(day, &published, error);
    day.as_published = false;
    if (!status) status = fleet_plan_live(day, &own, error);
    if (status) return status;
    printf("DeepSeek's published day (UTC+8). Free parameter: a decode unit of 18 nodes bears %.0f "
           "tokens a second.\n\n%-6s %10s %10s %10s\n",
           SCALED_DAY_UNIT_RATE, "hour", "published", "re-derived", "own rules");
    for (uint32_t hour = 0; hour < 24; hour++)
        printf("%02u:30  %10u %10u %10u\n", hour, scaled_day_published(hour),
               published.hour_nodes[hour], own.hour_nodes[hour]);
    printf("%-6s %10.2f %10.2f %10.2f\n%-6s %10s %9.2f%% %9.2f%%\n\n", "mean",
           SCALED_DAY_NODES_MEAN, published.nodes_mean, own.nodes_mean, "missed", "",
           missed(&published), missed(&own));
    return STATUS_OK;
}

/* Prints a day under each rule. The first rule is the reference. */
static enum status print_rules(enum scaled_load load, uint64_t seed, struct error *error) {
    static const enum scaled_rule rules[] = {SCALED_CLAIRVOYANT, SCALED_MANAGER, SCALED_REACTIVE,
                                             SCALED_DYNAMO, SCALED_STATIC};
    double least = 0;
    for (size_t i = 0; i < ARRAY_COUNT(rules); i++) {
        struct scaled_outcome outcome;
        struct scaled_day day = {.load = load,
                                 .unit_rate = SCALED_DAY_UNIT_RATE,
                                 .reserve = RESERVE,
                                 .rule = rules[i],
                                 .seed = seed};
        enum status status = fleet_plan_live(day, &outcome, error);
        if (status) return status;
        if (i == 0) least = outcome.nodes_mean;
        printf("%-22s %-12s %10.1f %9.3f %9u %7.2f%% %10llu\n", scaled_day_load_name(load),
               scaled_world_rule_name(rules[i]), outcome.nodes_mean, outcome.nodes_mean / least,
               outcome.nodes_max, missed(&outcome), (unsigned long long)outcome.reversals);
    }
    return STATUS_OK;
}

static void fleet_plan_print_head(const char *text) {
    printf("%s\n%-22s %-12s %10s %9s %9s %8s %10s\n", text, "load", "rule", "nodes", "of least",
           "max nodes", "missed", "reversals");
}

enum status fleet_plan_simulator(struct error *error) {
    enum status status = print_nodes(error);
    if (!status) fleet_plan_print_head("Days on which the rules were made:");
    for (int load = 0; load < SCALED_HELD_OUT && !status; load++)
        status = print_rules((enum scaled_load)load, 1, error);
    if (!status) fleet_plan_print_head("\nDays that were held out:");
    for (uint64_t seed = 11; seed <= 13 && !status; seed++)
        status = print_rules(SCALED_NOISE, seed, error);
    for (int load = SCALED_HELD_OUT; load < SCALED_LOAD_COUNT && !status; load++)
        status = print_rules((enum scaled_load)load, 11, error);
    return status;
}

/* ---- a bound for all rules ---- */

#define BOUND_SEEDS 3 /* of further simulated days: 11.. */
#define BOUND_MISSED 0.01
#define BOUND_TURNS 24 /* one an hour */

static enum status fleet_plan_find_bound(const struct scaled_day *day, double turns,
                                         double *nodes_out, struct error *error) {
    const struct scaled_bound_limits limits = {.missed_share = BOUND_MISSED, .turns = turns};
    struct scaled_options options;
    struct arena arena;
    void *memory = malloc(scaled_bound_bytes());
    if (!memory) return error_set(error, STATUS_NO_MEMORY, "no memory for a bound");
    arena_over(&arena, memory, scaled_bound_bytes());
    scaled_day_options(day, &options);
    options.load = day;
    enum status status = scaled_bound(&arena, &options, limits, nodes_out);
    free(memory);
    return status ? error_set(error, status, "no memory for a bound") : STATUS_OK;
}

/* Means over several simulations of a day. *missed_out is in percent. */
static enum status live_some(struct scaled_day day, double *nodes_out, double *missed_out,
                             double *turns_out, struct error *error) {
    struct scaled_outcome outcome;
    *nodes_out = *missed_out = *turns_out = 0;
    for (day.seed = 11; day.seed < 11 + BOUND_SEEDS; day.seed++) {
        enum status status = fleet_plan_live(day, &outcome, error);
        if (status) return status;
        *nodes_out += outcome.nodes_mean / BOUND_SEEDS;
        *missed_out += missed(&outcome) / BOUND_SEEDS;
        *turns_out += (double)outcome.reversals / BOUND_SEEDS;
    }
    return STATUS_OK;
}

static enum status fleet_plan_print_bound(enum scaled_load load, struct error *error) {
    double least, own, share, turns, any, bound;
    struct scaled_day day = {.load = load,
                             .unit_rate = SCALED_DAY_UNIT_RATE,
                             .reserve = RESERVE,
                             .rule = SCALED_CLAIRVOYANT};
    enum status status = live_some(day, &least, &share, &turns, error);
    day.rule = SCALED_MANAGER;
    if (!status) status = live_some(day, &own, &share, &turns, error);
    if (!status) status = fleet_plan_find_bound(&day, 0, &any, error);
    if (!status) status = fleet_plan_find_bound(&day, BOUND_TURNS, &bound, error);
    if (status) return status;
    printf("%-22s %11.1f %9.1f %5.3f %9.1f %5.3f %9.1f %5.3f %6.2f%% %6.1f\n",
           scaled_day_load_name(load), least, any, any / least, bound, bound / least, own,
           own / least, share, turns);
    return STATUS_OK;
}

enum status fleet_plan_bound(struct error *error) {
    printf("Nodes on average, and times the clairvoyant's: the fewest of any rule that misses a "
           "limit in "
           "%.0f %% of\nwindows, and of one that besides turns once an hour at most; and the "
           "product's "
           "manager.\n\n%-22s %11s %15s %15s %15s %7s %6s\n",
           100 * BOUND_MISSED, "load", "clairvoyant", "any rule", "once an hour", "fathom",
           "missed", "turns");
    enum status status = fleet_plan_print_bound(SCALED_NOISE, error);
    if (!status) status = fleet_plan_print_bound(SCALED_SLOW_NOISE, error);
    return status;
}
