/* SPDX-License-Identifier: Apache-2.0
 * The fleets of test_simulator_seeds.c: those of the scenarios faults-small (a shrunken fleet) and
 * faults-fleet (the published one at its peak), with shorter runs, and without their faults.
 */
#pragma once

#include "base/random.h"
#include "host/process/configuration/yaml_tree.h"
#include "serving/policy/speculate.h"
#include "simulate/hardware/builtin.h"
#include "simulate/scenario/scenario.h"
#include "simulate/scenario/scenario_edit.h"
#include "simulate/simulator/draw_faults.h"
#include "simulate/simulator/fault_costs.h"

#define SIMULATOR_FLEETS_SECOND ((int64_t)1000000000)

struct simulator_fleet {
    struct simulator_options options;
    struct load_mix_options mix;
    struct fault_rates rates;
    struct fault_limits limits;
    int64_t begin_ns, end_ns; /* faults begin between them */
    uint64_t requests_max;    /* numbers that may occur */
};

/* ---- files ---- */

static struct scenario simulator_fleets_scenarios[2]; /* the shrunken fleet, the published one */

static inline enum status simulator_fleets_find(void *context, struct arena *arena, const char *key,
                                                struct bytes name, const struct tree **tree_out,
                                                struct error *error) {
    enum builtin_kind kind = !strcmp(key, "hardware") ? BUILTIN_HARDWARE
                             : !strcmp(key, "model")  ? BUILTIN_MODEL
                                                      : BUILTIN_PRICES;
    (void)context;
    return yaml_tree_parse(arena, builtin_text(kind, name), key, tree_out, error);
}

static inline enum status simulator_fleets_read(struct arena *arena, struct error *error) {
    static const char *const files[2] = {SCENARIOS "/faults-small.yaml",
                                         SCENARIOS "/faults-fleet.yaml"};
    const struct scenario_library library = {NULL, simulator_fleets_find};
    enum status status = STATUS_OK;
    for (int i = 0; i < 2 && !status; i++) {
        const struct tree *tree;
        status = yaml_tree_read(arena, files[i], &tree, error);
        if (!status) status = scenario_edit_prepare(arena, tree, NULL, 0, &library, &tree, error);
        if (!status)
            status = scenario_read(arena, tree, files[i], &simulator_fleets_scenarios[i], error);
    }
    return status;
}

/* ---- fleets ---- */

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

static inline void simulator_fleets_make(struct simulator_fleet *fleet, bool whole, uint64_t seed) {
    const struct scenario *scenario = &simulator_fleets_scenarios[whole];
    *fleet = (struct simulator_fleet){.options = scenario->options,
                                      .mix = scenario->load.mix,
                                      .limits = scenario->limits,
                                      .begin_ns = 3 * SIMULATOR_FLEETS_SECOND,
                                      .end_ns = 15 * SIMULATOR_FLEETS_SECOND,
                                      .requests_max = 400};
    fleet->options.seed = fleet->mix.seed = seed;
    fleet->options.prefix_blocks = 1 << 14; /* gateways remember prefixes */
    fleet->options.fault_count = 0;
    if (whole) {
        fleet->options.measure_ns = 8 * SIMULATOR_FLEETS_SECOND;
        fleet->begin_ns = scenario->options.warm_ns + SIMULATOR_FLEETS_SECOND;
        fleet->end_ns = fleet->begin_ns + 2 * SIMULATOR_FLEETS_SECOND;
        fleet->requests_max = 400000;
    } else {
        fleet->options.warm_ns = 0;
        fleet->mix.requests = fleet->requests_max;
    }
    simulator_fleets_rate(&fleet->rates, whole ? 0 : 240, whole ? 2 : 3);
}
