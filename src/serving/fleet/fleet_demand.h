/* SPDX-License-Identifier: Apache-2.0
 * Computes a fleet's load from the counters of its gateways: the tokens per second that arrive for
 * each side (prefill and decode), the mix of requests, the backlog, and the share of recent
 * requests that missed a latency limit. The load is what arrives, not the throughput. The tokens of
 * a prompt count when the prompt is known, and those of an answer by the length of recent answers.
 */
#pragma once

#include "contract/record_fleet.h"
#include "serving/policy/forecast_load.h"
#include "serving/policy/load_noise.h"
#include "serving/policy/scale_fleet.h"

struct fleet_demand_rule {
    int64_t period_ns; /* period of the forecast: a day */
    int64_t fast_ns;   /* averaging time of the present load */
    int64_t quick_ns;  /* averaging time of the last moments; 0: not used */
    int64_t start_ns;  /* time from an order until the unit serves */
    int64_t ttft_limit_ns;
    double missed_share; /* largest accepted share of requests that miss a limit */
};

struct fleet_demand {
    struct fleet_demand_rule rule;
    struct record_fleet_load last; /* last record; record.kind RECORD_NONE: none */
    int64_t last_ns;
    uint64_t windows;                      /* number of windows, each between two records */
    double fast[SCALE_SIDES];              /* tokens per second */
    double requests, prompt_tokens;        /* recent arrivals */
    double hit_tokens, miss_tokens;        /* of recently ended prompts */
    double answers, answer_tokens;         /* recently ended */
    double first, late_first, timed, slow; /* recent counts, as in FLEET_LOAD */
    struct forecast_load forecast;
    struct load_noise noise;
};

/* The streams of the forecast are the two sides. */
_Static_assert(FORECAST_STREAMS == SCALE_SIDES, "a stream for each side");

void fleet_demand_open(struct fleet_demand *demand, const struct fleet_demand_rule *rule);

void fleet_demand_add(struct fleet_demand *demand, const struct record_fleet_load *load,
                      int64_t now_ns);

/* Means over recent requests. A prompt that is computed only in part counts with that part. */
double fleet_demand_prompt_tokens(const struct fleet_demand *demand);
double fleet_demand_answer_tokens(const struct fleet_demand *demand);

/* Fills in `demand` and `missed` of the view. `rates` is the present capacity of each side in
 * tokens per second. `soon` covers the time until soon_ns, and `later` until later_ns. */
void fleet_demand_view(const struct fleet_demand *demand, const double rates[SCALE_SIDES],
                       int64_t soon_ns, int64_t later_ns, struct scale_view *view);
