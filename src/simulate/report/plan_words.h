/* SPDX-License-Identifier: Apache-2.0
 * The results of `fathom plan`, as text, as JSON and as a page: fleets in the order of their nodes,
 * the chosen one first, the reason against each other one, and the curves of throughput per node
 * over tokens/s of a user. They contain no real time, so equal plans yield equal texts.
 */
#pragma once

#include "simulate/report/words.h"
#include "simulate/scenario/prices.h"
#include "simulate/simulator/size_fleet.h"

struct plan_found {
    struct size_options options;
    const char *load; /* its description: a trace's path, or "a steady mix" */
    struct prices prices;
    double node_hour;                 /* 0: there are no prices */
    const struct size_search *search; /* the candidates, with the curves */
    struct size_fleet fleets[SIZE_FLEETS_MAX];
    uint32_t count, candidates, runs;
    double measured_s;       /* of each run */
    double records;          /* of all runs */
    bool cut;                /* runs ended before the cheapest fleet was known */
    struct size_reach reach; /* of prompts, for any fleet */
    double long_prompt;      /* one prompt in a hundred has more tokens to compute */
};

/* Sorts the fleets: first the cheapest one that meets the limits, then others that were run, then
 * bounds, then those that cannot serve the load. Writes for each but the first why it lost. Returns
 * true if one meets the limits. */
bool plan_words_verify(struct plan_found *found);

void plan_words_text(struct json_writer *writer, const struct plan_found *found);
void plan_words_json(struct json_writer *writer, const struct plan_found *found);
void plan_words_page(struct json_writer *writer, const struct plan_found *found);
