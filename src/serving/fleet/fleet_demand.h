/* SPDX-License-Identifier: Apache-2.0
 * A fleet's load, from what its gateways count: tokens a second that arrive for either side, the mix of
 * requests, what waits, and how many requests missed a limit of late. What arrives counts, not what
 * comes out: a prompt's tokens when the prompt is known, an answer's as answers of late were long.
 */
#ifndef SERVING_FLEET_FLEET_DEMAND_H
#define SERVING_FLEET_FLEET_DEMAND_H

#include "contract/record_fleet.h"
#include "serving/policy/forecast_load.h"
#include "serving/policy/load_noise.h"
#include "serving/policy/scale_fleet.h"

struct fleet_demand_rule {
    int64_t period_ns; /* of the forecast: a day */
    int64_t fast_ns;   /* the load of now is a mean over about so much */
    int64_t quick_ns;  /* that of the last moments over about so much; 0: it is not looked at */
    int64_t start_ns;  /* from an order to a unit that serves */
    int64_t ttft_limit_ns;
    double missed_share; /* of requests, beyond a limit, that is too much */
};

struct fleet_demand {
    struct fleet_demand_rule rule;
    struct record_fleet_load last; /* the last record; record.kind RECORD_NONE: none */
    int64_t last_ns;
    uint64_t windows;                      /* between two records */
    double fast[SCALE_SIDES];              /* tokens a second */
    double requests, prompt_tokens;        /* that arrived of late */
    double hit_tokens, miss_tokens;        /* of prompts that ended of late */
    double answers, answer_tokens;         /* that ended of late */
    double first, late_first, timed, slow; /* of late, as in FLEET_LOAD */
    struct forecast_load forecast;
    struct load_noise noise;
};

/* The forecast's streams are the sides. */
_Static_assert(FORECAST_STREAMS == SCALE_SIDES, "a stream for each side");

void fleet_demand_open(struct fleet_demand *demand, const struct fleet_demand_rule *rule);

void fleet_demand_add(struct fleet_demand *demand, const struct record_fleet_load *load,
                      int64_t now_ns);

/* Means of late; a prompt that is computed in part counts for that part. */
double fleet_demand_prompt_tokens(const struct fleet_demand *demand);
double fleet_demand_answer_tokens(const struct fleet_demand *demand);

/* Fills in demand and missed, of sides that can bear so many tokens a second as they are: `soon` is
 * looked for until soon_ns, `later` until later_ns. */
void fleet_demand_view(const struct fleet_demand *demand, const double rates[SCALE_SIDES],
                       int64_t soon_ns, int64_t later_ns, struct scale_view *view);

#endif
