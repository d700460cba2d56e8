/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/fleet/fleet_demand.h"

#include <math.h>

/* the averaging time of the mix of requests is this multiple of that of the load */
#define MIX_FAST 8
#define MISSED_FASTER 4   /* missed limits decay this much faster than arrivals */
#define MISSED_LEAST 20   /* minimum of requests for a meaningful share */
#define ANSWER_TOKENS 256 /* assumed length of an answer, before the first one has ended */

void fleet_demand_open(struct fleet_demand *demand, const struct fleet_demand_rule *rule) {
    *demand = (struct fleet_demand){.rule = *rule};
    demand->noise.rule = (struct load_noise_rule){
        .period_ns = rule->period_ns, .quick_ns = rule->quick_ns, .ahead_ns = rule->start_ns};
    forecast_load_open(&demand->forecast, rule->period_ns);
}

/* True if a counter has fallen, because a restarted gateway counts from 0. That window is
 * ignored. */
static bool has_fallen(const struct record_fleet_load *before,
                       const struct record_fleet_load *load) {
    return load->arrived_requests < before->arrived_requests ||
           load->arrived_tokens < before->arrived_tokens || load->hit_tokens < before->hit_tokens ||
           load->miss_tokens < before->miss_tokens || load->completed < before->completed ||
           load->output_tokens < before->output_tokens ||
           load->first_tokens < before->first_tokens || load->ttft_misses < before->ttft_misses ||
           load->tpot_requests < before->tpot_requests || load->tpot_misses < before->tpot_misses;
}

static void fleet_demand_fade(double *sum, double kept, uint64_t before, uint64_t now) {
    *sum = kept * *sum + (double)(now - before);
}

static void fleet_demand_mix(struct fleet_demand *demand, const struct record_fleet_load *load,
                             int64_t passed_ns) {
    const struct record_fleet_load *last = &demand->last;
    double mix_ns = (double)demand->rule.fast_ns * MIX_FAST;
    double kept = exp(-(double)passed_ns / mix_ns);
    double quick = exp(-MISSED_FASTER * (double)passed_ns / (double)demand->rule.fast_ns);
    fleet_demand_fade(&demand->requests, kept, last->arrived_requests, load->arrived_requests);
    fleet_demand_fade(&demand->prompt_tokens, kept, last->arrived_tokens, load->arrived_tokens);
    fleet_demand_fade(&demand->hit_tokens, kept, last->hit_tokens, load->hit_tokens);
    fleet_demand_fade(&demand->miss_tokens, kept, last->miss_tokens, load->miss_tokens);
    fleet_demand_fade(&demand->answers, kept, last->completed, load->completed);
    fleet_demand_fade(&demand->answer_tokens, kept, last->output_tokens, load->output_tokens);
    fleet_demand_fade(&demand->first, quick, last->first_tokens, load->first_tokens);
    fleet_demand_fade(&demand->late_first, quick, last->ttft_misses, load->ttft_misses);
    fleet_demand_fade(&demand->timed, quick, last->tpot_requests, load->tpot_requests);
    fleet_demand_fade(&demand->slow, quick, last->tpot_misses, load->tpot_misses);
}

static double miss_share(const struct fleet_demand *demand) {
    double all = demand->hit_tokens + demand->miss_tokens;
    return all > 0 ? demand->miss_tokens / all : 1;
}

double fleet_demand_prompt_tokens(const struct fleet_demand *demand) {
    double requests = demand->requests;
    return requests > 0 ? demand->prompt_tokens / requests * miss_share(demand) : 0;
}

double fleet_demand_answer_tokens(const struct fleet_demand *demand) {
    return demand->answers > 0 ? demand->answer_tokens / demand->answers : ANSWER_TOKENS;
}

void fleet_demand_add(struct fleet_demand *demand, const struct record_fleet_load *load,
                      int64_t now_ns) {
    const struct record_fleet_load *last = &demand->last;
    int64_t passed_ns = now_ns - demand->last_ns;
    if (last->record.kind != RECORD_NONE && passed_ns > 0 && !has_fallen(last, load)) {
        double seconds = (double)passed_ns * 1e-9, rates[SCALE_SIDES];
        double kept = exp(-(double)passed_ns / (double)demand->rule.fast_ns);
        if (!demand->windows++) kept = 0;
        fleet_demand_mix(demand, load, passed_ns);
        rates[SCALE_PREFILL] =
            (double)(load->arrived_tokens - last->arrived_tokens) / seconds * miss_share(demand);
        rates[SCALE_DECODE] = (double)(load->arrived_requests - last->arrived_requests) / seconds *
                              fleet_demand_answer_tokens(demand);
        for (uint32_t i = 0; i < SCALE_SIDES; i++)
            demand->fast[i] = kept * demand->fast[i] + (1 - kept) * rates[i];
        if (demand->answers > 0) /* else their lengths are unknown */
            forecast_load_add(&demand->forecast, rates, now_ns);
        const struct load_noise_window window = {
            .requests = (double)(load->arrived_requests - last->arrived_requests),
            .rates = {rates[SCALE_PREFILL], rates[SCALE_DECODE]},
            .fast = {demand->fast[SCALE_PREFILL], demand->fast[SCALE_DECODE]},
            .passed_ns = passed_ns};
        load_noise_add(&demand->noise, &window, &demand->forecast, now_ns);
        for (uint32_t i = 0; i < SCALE_SIDES; i++)
            demand->forecast.way[i] = load_noise_way(&demand->noise, i);
    }
    demand->last = *load;
    demand->last_ns = now_ns;
}

/* The side that is short of capacity. If prompts wait for pages of the decode side, it is that
 * side. */
static uint32_t find_short(const struct fleet_demand *demand, const double *rates) {
    double prefill = demand->fast[SCALE_PREFILL] / fmax(rates[SCALE_PREFILL], 1e-9);
    double decode = demand->fast[SCALE_DECODE] / fmax(rates[SCALE_DECODE], 1e-9);
    return decode > prefill ? SCALE_DECODE : SCALE_PREFILL;
}

static bool is_missed(const struct fleet_demand *demand, double count, double beyond) {
    return count >= MISSED_LEAST && beyond > demand->rule.missed_share * count;
}

void fleet_demand_view(const struct fleet_demand *demand, const double rates[SCALE_SIDES],
                       int64_t soon_ns, int64_t later_ns, struct scale_view *view) {
    double queued = demand->last.requests_queued,
           limit_s = (double)demand->rule.ttft_limit_ns * 1e-9;
    double tokens[SCALE_SIDES] = {fleet_demand_prompt_tokens(demand),
                                  fleet_demand_answer_tokens(demand)};
    uint32_t is_short = find_short(demand, rates);
    for (uint32_t i = 0; i < SCALE_SIDES; i++) {
        const struct forecast_load *forecast = &demand->forecast;
        double seen = fmax(demand->fast[i], forecast->recent[i]);
        double then = forecast_load_at(forecast, i, soon_ns);
        double times = 1 + load_noise_margin(&demand->noise, i);
        view->demand[i] = (struct scale_demand){
            .now = fmax(seen, load_noise_jump(&demand->noise, i)),
            .soon = fmax(forecast_load_peak(forecast, i, soon_ns), then * times),
            .later = forecast_load_peak(forecast, i, later_ns),
        };
        view->missed[i] = false;
    }
    /* Work that fits into half a limit is no backlog, because a fleet that meets the limit has that
     * much waiting. The excess must be done within the averaging time of the present load. To
     * require it within a limit would be sooner than any unit can start, and would demand many
     * times the load. */
    double gone_s = fmax(limit_s, (double)demand->rule.fast_ns * 1e-9);
    double wait_s = queued * tokens[is_short] / fmax(rates[is_short], 1e-9);
    if (wait_s > limit_s / 2) {
        struct scale_demand *other = &view->demand[1 - is_short];
        view->demand[is_short].now += queued * tokens[is_short] / gone_s;
        /* the load will also reach that side */
        other->later = fmax(other->later, rates[1 - is_short]);
    }
    if (is_missed(demand, demand->first, demand->late_first)) view->missed[is_short] = true;
    if (is_missed(demand, demand->timed, demand->slow)) view->missed[SCALE_DECODE] = true;
}
