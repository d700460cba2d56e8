/* SPDX-License-Identifier: Apache-2.0
 * The fleets that test_simulator_seeds.c lives: a shrunken one, and the published one at its peak.
 *
 * The shrunken fleet has 3 units of 4 ranks for prompts and 3 of 6 for answers, on nodes of 2 GPUs,
 * with 48 experts instead of 256 so that these fit; everything else is an H800's and DeepSeek-V3's.
 * Its load keeps prompts' ranks busy for about half of the time, so that a unit can be missed.
 */
#pragma once

#include "base/random.h"
#include "serving/policy/speculate.h"
#include "simulate/load/load_mix.h"
#include "simulate/simulator/day_load.h"
#include "simulate/simulator/draw_faults.h"
#include "simulate/simulator/fault_costs.h"
#include "simulate/simulator/simulator.h"

#define SIMULATOR_FLEETS_SECOND ((int64_t)1000000000)

struct simulator_fleet {
    struct hardware hardware;
    struct model_figures model;
    struct simulator_options options;
    bool whole;
    struct load_mix_options mix; /* of the shrunken one's load */
    struct day_load day;         /* of the whole one's */
    struct fault_rates rates;
    struct fault_limits limits;
    int64_t begin_ns, end_ns; /* faults begin between them */
    uint64_t requests_max;    /* numbers that may occur */
};

/* ---- faults ---- */

/* As many of each kind: about one in each run, if `per_hour` says so. */
static inline void simulator_fleets_rate(struct fault_rates *rates, double per_hour,
                                         double lasts_s) {
    static const double factors[SIMULATOR_FAULT_KIND_COUNT] = {[SIMULATOR_FAULT_RANK_SLOW] = 3,
                                                               [SIMULATOR_FAULT_DISKS_SLOW] = 30,
                                                               [SIMULATOR_FAULT_EXPERTS_HOT] = 8,
                                                               [SIMULATOR_FAULT_CROWD] = 3};
    for (uint32_t kind = 0; kind < SIMULATOR_FAULT_KIND_COUNT; kind++)
        rates->kinds[kind] = (struct fault_rate){per_hour, lasts_s, factors[kind]};
}

/* ---- the shrunken fleet ---- */

static inline struct simulator_unit_kind simulator_fleets_kind(const struct simulator_fleet *fleet,
                                                               enum unit_role role, uint32_t count,
                                                               uint32_t ranks) {
    return (struct simulator_unit_kind){
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

static inline void simulator_fleets_shrink(struct simulator_fleet *fleet, uint64_t seed) {
    fleet->model.experts = 48;
    fleet->options = (struct simulator_options){
        .model = &fleet->model,
        .kinds = {simulator_fleets_kind(fleet, UNIT_PREFILL, 3, 4),
                  simulator_fleets_kind(fleet, UNIT_DECODE, 3, 6)},
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
    fleet->limits = (struct fault_limits){2 * SIMULATOR_FLEETS_SECOND, 50 * 1000 * 1000};
    fleet->begin_ns = 3 * SIMULATOR_FLEETS_SECOND;
    fleet->end_ns = 15 * SIMULATOR_FLEETS_SECOND;
    simulator_fleets_rate(&fleet->rates, 240, 3);
}

/* What else a fleet may be: drawn, for seeds that look for what breaks and count no cost. */
static inline void simulator_fleets_vary(struct simulator_fleet *fleet, uint64_t seed) {
    struct simulator_options *options = &fleet->options;
    uint32_t bits = (uint32_t)(random_uniform(seed, 7, 0) * 65536);
    options->gateways = 1 + bits % 3;
    options->through_api = bits >> 2 & bits >> 3 & 1;
    for (uint32_t i = 0; i < options->kind_count; i++) {
        struct simulator_unit_kind *kind = &options->kinds[i];
        kind->kv_storage = bits >> (4 + i) & 1;
        kind->level_steps = bits >> 6 & 1;
        kind->speculate = bits >> 7 & 1 ? SPECULATE_ALWAYS : SPECULATE_NEVER;
        kind->prefix_cache = (bits >> 8 & 3) != 0;
        if (bits >> 10 & 1) kind->page_count = 300; /* a rank: requests lose their pages */
        if (bits >> 11 & 1) kind->requests_max = 11;
    }
    if ((bits >> 12 & 3) == 0) options->kinds[0].role = options->kinds[1].role = UNIT_BOTH;
}

/* ---- the published fleet ---- */

#define SIMULATOR_FLEETS_PREFILL 29
#define SIMULATOR_FLEETS_DECODE 9
#define SIMULATOR_FLEETS_DECODE_RANKS 144
#define SIMULATOR_FLEETS_OUTPUT (14800.0 * 18 * SIMULATOR_FLEETS_DECODE) /* tokens a second */
#define SIMULATOR_FLEETS_STANDING 80 /* of a decode rank, at the start */

static inline struct simulator_unit_kind simulator_fleets_large(const struct simulator_fleet *fleet,
                                                                enum unit_role role) {
    bool prefill = role == UNIT_PREFILL;
    return (struct simulator_unit_kind){
        .count = prefill ? SIMULATOR_FLEETS_PREFILL : SIMULATOR_FLEETS_DECODE,
        .role = role,
        .hardware = &fleet->hardware,
        .ranks = prefill ? 32 : SIMULATOR_FLEETS_DECODE_RANKS,
        .ranks_per_node = 8,
        .redundant_experts = 32,
        .balance_experts = true,
        .rows_max = 128,
        .requests_max = 160,
        .step_tokens_max = prefill ? 16384 : 512,
        .context_tokens_max = 65536,
        .overlap = -1,
        .level_steps = true,
        .prefix_cache = prefill,
        .kv_storage = prefill,
    };
}

static inline void simulator_fleets_publish(struct simulator_fleet *fleet, uint64_t seed) {
    const struct day_moments moments = {.in_out = 608.0 / 168,
                                        .hit_share = 342.0 / 608,
                                        .kv_mean = 4989,
                                        .prompt_cv = 1,
                                        .answer_cv = 1,
                                        .first_share = 0.2,
                                        .prompt_max = 32768,
                                        .answer_max = 16384};
    fleet->limits = (struct fault_limits){5 * SIMULATOR_FLEETS_SECOND, 100 * 1000 * 1000};
    fleet->begin_ns = 5 * SIMULATOR_FLEETS_SECOND;
    fleet->end_ns = 7 * SIMULATOR_FLEETS_SECOND;
    fleet->requests_max = 400000;
    fleet->options = (struct simulator_options){
        .model = &fleet->model,
        .kinds = {simulator_fleets_large(fleet, UNIT_PREFILL),
                  simulator_fleets_large(fleet, UNIT_DECODE)},
        .kind_count = 2,
        .gateways = 10,
        .gateway_requests_max = 16384,
        .prefix_blocks = 1 << 16,
        .storage_bytes = 1e15,
        .host_bytes = 1e10,
        .expert_skew = 0.5,
        .settle_ns = 2 * SIMULATOR_FLEETS_SECOND,
        .warm_ns = 4 * SIMULATOR_FLEETS_SECOND,
        .measure_ns = 10 * SIMULATOR_FLEETS_SECOND,
        .seed = seed,
    };
    fleet->day = (struct day_load){
        .standing_count =
            SIMULATOR_FLEETS_STANDING * SIMULATOR_FLEETS_DECODE * SIMULATOR_FLEETS_DECODE_RANKS,
        .begin_ns = 2 * SIMULATOR_FLEETS_SECOND,
        .end_ns = 14 * SIMULATOR_FLEETS_SECOND,
        .seed = seed,
    };
    fleet->whole = day_load_solve(&moments, &fleet->day.lengths);
    fleet->day.rate = SIMULATOR_FLEETS_OUTPUT / fleet->day.lengths.answer_mean;
    simulator_fleets_rate(&fleet->rates, 0, 2);
}

static inline void simulator_fleets_make(struct simulator_fleet *fleet, bool whole,
                                         const struct hardware *hardware,
                                         const struct model_figures *model, uint64_t seed) {
    *fleet = (struct simulator_fleet){.hardware = *hardware, .model = *model};
    if (whole)
        simulator_fleets_publish(fleet, seed);
    else
        simulator_fleets_shrink(fleet, seed);
}
