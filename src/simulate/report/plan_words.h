/* SPDX-License-Identifier: Apache-2.0
 * What `fathom plan` found, as text, as JSON and as a page: fleets in the order of their nodes, the
 * chosen one first, why each other one lost, and the curves of throughput a node against tokens/s of a
 * user. No time of a clock is in it, so equal plans are equal texts.
 */
#ifndef SIMULATE_REPORT_PLAN_WORDS_H
#define SIMULATE_REPORT_PLAN_WORDS_H

#include "simulate/report/words.h"
#include "simulate/scenario/prices.h"
#include "simulate/twin/size_fleet.h"

struct plan_found {
    struct size_options options;
    const char *load; /* what it is: a trace's path, or "a steady mix" */
    struct prices prices;
    double node_hour;                 /* 0: there are no prices */
    const struct size_search *search; /* what was weighed, with the curves */
    struct size_fleet fleets[SIZE_FLEETS_MAX];
    uint32_t count, candidates, runs;
    double measured_s;       /* of each run */
    double records;          /* of all runs */
    bool cut;                /* runs ended before the cheapest fleet was known */
    struct size_reach reach; /* of prompts, whatever the fleet */
    double long_prompt;      /* of a hundred prompts one has more tokens to compute */
};

/* Puts the cheapest fleet that holds first, then what ran, then bounds, then what cannot be; and
 * says of each but the first why it lost. True: there is one that holds. */
bool plan_words_judge(struct plan_found *found);

void plan_words_text(struct json_writer *writer, const struct plan_found *found);
void plan_words_json(struct json_writer *writer, const struct plan_found *found);
void plan_words_page(struct json_writer *writer, const struct plan_found *found);

#endif
