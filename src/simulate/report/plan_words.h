/* SPDX-License-Identifier: Apache-2.0
 * The results of `fathom plan` as text, JSON and an HTML page: the fleets ordered by their nodes,
 * with the chosen one first and for each other one the reason against it, and curves of throughput
 * per node over the token rate of a user. They contain no wall-clock time, so equal plans give
 * equal texts.
 */
#pragma once

#include "simulate/report/words.h"
#include "simulate/scenario/prices.h"
#include "simulate/simulator/size_fleet.h"

struct plan_found {
    struct size_options options;
    const char *load; /* description: the path of a trace, or "a steady mix" */
    struct prices prices;
    double node_hour;                 /* price of a node per hour; 0: there are no prices */
    const struct size_search *search; /* the candidates and the curves */
    struct size_fleet fleets[SIZE_FLEETS_MAX];
    uint32_t count, candidates, runs;
    double measured_s;       /* of each run */
    double records;          /* of all runs */
    bool cut;                /* the runs ended before the cheapest fleet was known */
    struct size_reach reach; /* the longest prompts that any fleet can serve in time */
    double long_prompt;      /* 99th percentile of the computed tokens of prompts */
};

/* Sorts the fleets: the cheapest one that meets the limits, then other fleets that were run, then
 * those with only a bound, then those that cannot serve the load. Writes for each but the first why
 * it lost. Returns true if one meets the limits. */
bool plan_words_verify(struct plan_found *found);

void plan_words_text(struct json_writer *writer, const struct plan_found *found);
void plan_words_json(struct json_writer *writer, const struct plan_found *found);
void plan_words_page(struct json_writer *writer, const struct plan_found *found);
