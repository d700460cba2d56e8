/* SPDX-License-Identifier: Apache-2.0
 * The results of a simulation, collected by callbacks during the run (first tokens, ends, samples)
 * and computed from the report. Text, JSON and page are written from it.
 *
 * TTFT covers requests with the first token in the measured time, TPOT those that ended in it. In a
 * short window few long answers end, so the speed of users is computed from tokens
 * (report.user_speed_tokens), not from requests.
 */
#pragma once

#include "simulate/report/spread.h"
#include "simulate/report/words.h"
#include "simulate/scenario/scenario.h"
#include "simulate/simulator/day_figures.h"

#define OUTCOME_POINTS 120 /* of the time series */
#define OUTCOME_FIGURES_MAX 64

struct outcome_point {                              /* from the previous point to this one */
    double at_s;                                    /* since the measured time began */
    double prompt_rate, computed_rate, output_rate; /* tokens a second, of the whole fleet */
    double pages_share[UNIT_ROLE_COUNT]; /* held share of a role's KV pages at this time */
    double open;                         /* requests in progress */
};

struct outcome_money {                /* an hour of the fleet as in the measured time */
    double cost, income_list, income; /* at the list prices; at those of the hour of the day */
};

struct outcome {
    const struct scenario *scenario;
    int64_t begin_ns, end_ns; /* of the measured time; end_ns INT64_MAX: when all are answered */
    struct time_spread ttft, tpot, e2e;
    struct outcome_point points[OUTCOME_POINTS];
    uint32_t point_count;
    int64_t sampled_ns;
    double sampled_prompt, sampled_computed, sampled_output;
    struct simulator_report report;
    struct fault_ends *ends; /* collects ends; may be NULL */
    struct fault_cost costs
        [SIMULATOR_FAULT_KIND_COUNT]; /* zeros: a run without faults, or one that was not compared
                                       * with such a run */
};

/* Clears the outcome, and sets the callbacks of the scenario's run. */
void outcome_listen(struct outcome *outcome, struct scenario *scenario);

/* The number of points up to the end of the measured time. A run that ends when all requests are
 * answered continues until its last timer. */
uint32_t outcome_points(const struct outcome *outcome);

/* The nodes of a role. */
double outcome_nodes(const struct outcome *outcome, enum unit_role role);
struct outcome_money outcome_money_of(const struct outcome *outcome);

/* Writes figures_out[OUTCOME_FIGURES_MAX] and returns how many. All are predictions. */
uint32_t outcome_figures(const struct outcome *outcome, struct day_figure *figures_out);

/* The figure of that name; 0 if there is none. */
double outcome_figure_of(const struct day_figure *figures, uint32_t count, const char *name);

const char *outcome_role_name(enum unit_role role); /* "both", "prefill", "decode" */
const char *outcome_spent_name(uint32_t spent); /* enum step_spent, and STEP_SPENT_COUNT: idle */
double outcome_spent(const struct simulator_role_counts *counts, uint32_t spent); /* seconds */
