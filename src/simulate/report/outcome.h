/* SPDX-License-Identifier: Apache-2.0
 * The results of a simulation. Callbacks collect them during the run (first tokens, ends, samples),
 * and others are computed from the report. They are written as text, JSON or an HTML page.
 *
 * TTFT covers the requests with their first token in the measured time, TPOT those that ended in
 * it. Few long answers end in a short window, so user speed is computed from tokens
 * (report.user_speed_tokens), not from requests.
 */
#pragma once

#include "contract/record_unit.h"
#include "simulate/report/spread.h"
#include "simulate/report/words.h"
#include "simulate/scenario/scenario.h"
#include "simulate/simulator/day_figures.h"

#define OUTCOME_POINTS 120 /* of the time series */
#define OUTCOME_FIGURES_MAX 64

struct outcome_point {                              /* from the previous point to this one */
    double at_s;                                    /* since the start of the measured time */
    double prompt_rate, computed_rate, output_rate; /* tokens per second, whole fleet */
    double pages_share[UNIT_ROLE_COUNT]; /* share of a role's KV pages in use at this time */
    double open;                         /* requests in progress */
};

struct outcome_money {                /* per hour, for a fleet loaded as in the measured time */
    double cost, income_list, income; /* at list prices; at those of the hour of the day */
};

struct outcome {
    const struct scenario *scenario;
    int64_t begin_ns, end_ns; /* measured time; end_ns INT64_MAX: until all are answered */
    struct time_spread ttft, tpot, e2e;
    struct outcome_point points[OUTCOME_POINTS];
    uint32_t point_count;
    int64_t sampled_ns;
    double sampled_prompt, sampled_computed, sampled_output;
    struct simulator_report report;
    struct fault_ends *ends; /* collects the ends of requests; may be NULL */
    struct fault_cost costs
        [SIMULATOR_FAULT_KIND_COUNT]; /* zeros: the run has no faults, or was not compared with a
                                       * run without them */
};

/* Clears the outcome and sets the callbacks in the options of the scenario. */
void outcome_listen(struct outcome *outcome, struct scenario *scenario);

/* The number of points up to the end of the measured time. (A run that ends when all requests are
 * answered continues until its last timer.) */
uint32_t outcome_points(const struct outcome *outcome);

/* The number of nodes of a role. */
double outcome_nodes(const struct outcome *outcome, enum unit_role role);
struct outcome_money outcome_money_of(const struct outcome *outcome);

/* Writes figures_out[OUTCOME_FIGURES_MAX] and returns their number. All are predictions. */
uint32_t outcome_figures(const struct outcome *outcome, struct day_figure *figures_out);

/* The value of the figure of that name; 0 if there is none. */
double outcome_figure_of(const struct day_figure *figures, uint32_t count, const char *name);

const char *outcome_spent_name(uint32_t spent); /* enum step_spent; STEP_SPENT_COUNT: idle */
double outcome_spent(const struct simulator_role_counts *counts, uint32_t spent); /* seconds */
