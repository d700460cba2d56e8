/* SPDX-License-Identifier: Apache-2.0
 * The fleets that test_twin_seeds.c lives: a shrunken one, and the published one at its peak.
 *
 * The shrunken fleet has 3 units of 4 ranks for prompts and 3 of 6 for answers, on nodes of 2 GPUs,
 * with 48 experts instead of 256 so that these fit; everything else is an H800's and DeepSeek-V3's.
 * Its load keeps prompts' ranks busy for about half of the time, so that a unit can be missed.
 */
#ifndef TESTS_SIMULATE_TWIN_TWIN_FLEETS_H
#define TESTS_SIMULATE_TWIN_TWIN_FLEETS_H

#include "base/random.h"
#include "serving/policy/speculate.h"
#include "simulate/load/load_mix.h"
#include "simulate/twin/draw_faults.h"
#include "simulate/twin/fault_costs.h"
#include "simulate/twin/twin.h"

#define TWIN_FLEETS_SECOND ((int64_t)1000000000)

struct twin_fleet {
    struct hardware hardware;
    struct model_figures model;
    struct twin_options options;
    struct load_mix_options mix;
    struct fault_rates rates;
    struct fault_limits limits;
    int64_t begin_ns, end_ns; /* faults begin between them */
    uint64_t requests_max;    /* numbers that may occur */
};

/* ---- faults ---- */

/* As many of each kind: about one in each run, if `per_hour` says so. */
static inline void twin_fleets_rate(struct fault_rates *rates, double per_hour, double lasts_s) {
    static const double factors[TWIN_FAULT_KIND_COUNT] = {[TWIN_FAULT_RANK_SLOW] = 3,
                                                          [TWIN_FAULT_DISKS_SLOW] = 30,
                                                          [TWIN_FAULT_EXPERTS_HOT] = 8,
                                                          [TWIN_FAULT_CROWD] = 3};
    for (uint32_t kind = 0; kind < TWIN_FAULT_KIND_COUNT; kind++)
        rates->kinds[kind] = (struct fault_rate){per_hour, lasts_s, factors[kind]};
}

/* ---- the shrunken fleet ---- */

static inline struct twin_unit_kind twin_fleets_kind(const struct twin_fleet *fleet,
                                                     enum unit_role role, uint32_t count,
                                                     uint32_t ranks) {
    return (struct twin_unit_kind){
        .count = count,
        .role = role,
        .hardware = &fleet->hardware,
        .ranks = ranks,
        .ranks_per_node = 2,
        .redundant_experts = ranks,
        .balance_experts = true,
        .rows_max = 10,
        .requests_max = 30,
        .step_tokens_max = 2048,
        .page_count = 1500,
        .context_tokens_max = 16384,
        .overlap = -1,
        .level_steps = true,
        .prefix_cache = true,
        .kv_storage = true,
    };
}

static inline void twin_fleets_shrink(struct twin_fleet *fleet, uint64_t seed) {
    fleet->model.experts = 48;
    fleet->options = (struct twin_options){
        .model = &fleet->model,
        .kinds = {twin_fleets_kind(fleet, UNIT_PREFILL, 3, 4),
                  twin_fleets_kind(fleet, UNIT_DECODE, 3, 6)},
        .kind_count = 2,
        .gateways = 2,
        .gateway_requests_max = 512,
        .prefix_blocks = 1 << 14,
        .storage_bytes = 2e12,
        .host_bytes = 4e9,
        .expert_skew = 0.5,
        .seed = seed,
    };
    fleet->mix = (struct load_mix_options){
        .shape = {.answer_tokens = 150,
                  .answer_cv = 0.8,
                  .text_tokens = 1800,
                  .text_cv = 1,
                  .system_tokens = 1000,
                  .turns = 3,
                  .systems = 20,
                  .tokens_max = 14000},
        .requests_per_s = 25,
        .arrival_cv = 1,
        .think_s = 5,
        .ttft_s = 1,
        .tpot_s = 0.04,
        .requests = 400,
        .seed = seed,
    };
    fleet->requests_max = 400;
    fleet->limits = (struct fault_limits){2 * TWIN_FLEETS_SECOND, 50 * 1000 * 1000};
    fleet->begin_ns = 3 * TWIN_FLEETS_SECOND;
    fleet->end_ns = 15 * TWIN_FLEETS_SECOND;
    twin_fleets_rate(&fleet->rates, 240, 3);
}

/* What else a fleet may be: drawn, for seeds that look for what breaks and count no cost. */
static inline void twin_fleets_vary(struct twin_fleet *fleet, uint64_t seed) {
    struct twin_options *options = &fleet->options;
    uint32_t bits = (uint32_t)(random_uniform(seed, 7, 0) * 65536);
    options->gateways = 1 + bits % 3;
    options->through_api = bits >> 2 & bits >> 3 & 1;
    for (uint32_t i = 0; i < options->kind_count; i++) {
        struct twin_unit_kind *kind = &options->kinds[i];
        kind->kv_storage = bits >> (4 + i) & 1;
        kind->level_steps = bits >> 6 & 1;
        kind->speculate = bits >> 7 & 1 ? SPECULATE_ALWAYS : SPECULATE_NEVER;
        kind->prefix_cache = (bits >> 8 & 3) != 0;
        if (bits >> 10 & 1) kind->page_count = 300; /* a rank: requests lose their pages */
        if (bits >> 11 & 1) kind->requests_max = 11;
    }
    if ((bits >> 12 & 3) == 0) options->kinds[0].role = options->kinds[1].role = UNIT_BOTH;
}

static inline void twin_fleets_make(struct twin_fleet *fleet, bool whole,
                                    const struct hardware *hardware,
                                    const struct model_figures *model, uint64_t seed) {
    (void)whole;
    *fleet = (struct twin_fleet){.hardware = *hardware, .model = *model};
    twin_fleets_shrink(fleet, seed);
}

#endif
