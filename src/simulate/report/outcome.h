/* SPDX-License-Identifier: Apache-2.0
 * What a run of the twin came to: it listens while the run goes on (first tokens, ends, samples),
 * and makes figures of what it heard and of the report. Text, JSON and page are written from it.
 *
 * TTFT is of requests whose first token came in the measured time; TPOT of those that ended in it.
 * A window that is shorter than answers sees few of the long ones end, so the speed of users is
 * taken from tokens (report.user_speed_tokens), not from requests.
 */
#ifndef SIMULATE_REPORT_OUTCOME_H
#define SIMULATE_REPORT_OUTCOME_H

#include "simulate/report/spread.h"
#include "simulate/scenario/scenario.h"
#include "simulate/twin/day_figures.h"

#define OUTCOME_POINTS 120 /* of the time series */
#define OUTCOME_FIGURES_MAX 64

struct outcome_point {                              /* from the point before to this one */
    double at_s;                                    /* since the measured time began */
    double prompt_rate, computed_rate, output_rate; /* tokens a second, of the whole fleet */
    double pages_share[UNIT_ROLE_COUNT]; /* of a role's KV pages that are held, at this moment */
    double open;                         /* requests that have begun and not ended */
};

struct outcome_money {                /* an hour of the fleet as it was in the measured time */
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
    struct twin_report report;
    struct fault_ends *ends; /* where ends are kept; NULL: nowhere */
    struct fault_cost
        costs[TWIN_FAULT_KIND_COUNT]; /* zeros: of a run without faults, or of one that
                                                     * was not compared with such a run */
};

/* Empties it, and makes the scenario's run tell it what happens. */
void outcome_listen(struct outcome *outcome, struct scenario *scenario);

/* How many of the points there are up to the measured time's end: a run that ends when all are
 * answered goes on until the last clock has rung. */
uint32_t outcome_points(const struct outcome *outcome);

/* Nodes of a role. */
double outcome_nodes(const struct outcome *outcome, enum unit_role role);
struct outcome_money outcome_money_of(const struct outcome *outcome);

/* figures_out[OUTCOME_FIGURES_MAX]; returns how many. All are predictions. */
uint32_t outcome_figures(const struct outcome *outcome, struct day_figure *figures_out);

const char *outcome_role_name(enum unit_role role); /* "both", "prefill", "decode" */
const char *outcome_spent_name(uint32_t spent); /* enum step_spent, and STEP_SPENT_COUNT: idle */
double outcome_spent(const struct twin_role_counts *counts, uint32_t spent); /* seconds */

#endif
