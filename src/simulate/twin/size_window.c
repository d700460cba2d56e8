/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/twin/size_window.h"

#include "base/limits.h"
#include "base/number.h"
#include "serving/policy/speculate.h"

#define SECOND_NS 1e9
#define SETTLE_S 1.0
#define WARM_S 4.0
#define MEASURE_S 8.0 /* or as long as REQUESTS take to come */
#define MEASURE_S_MAX 60.0
#define REQUESTS 1000
#define FILL_ANSWERS 2.5 /* mean answers' time until an empty combined unit is as full as it gets */
#define FILLED_S 20      /* measured then */
#define GATEWAYS 1
#define GATEWAY_REQUESTS 65536
#define PREFIX_BLOCKS (1 << 18)
#define CONTEXT_TOKENS 131072
#define ANSWER_TOKENS 16384
#define STORAGE_BYTES 1e15
#define FIRST_SHARE 0.3 /* of requests that begin a conversation; fewer where hits leave no room */
#define PROMPT_REQUESTS 512

static double fleet_ranks(const struct size_fleet *fleet) {
    double ranks = 0;
    for (uint32_t k = 0; k < fleet->kind_count; k++)
        ranks += fleet->counts[k] * (double)fleet->kinds[k].ranks;
    return ranks;
}

struct size_sample size_window_sample(const struct size_fleet *fleet) {
    struct size_sample sample = {{fleet->counts[0], fleet->counts[1]}, 1};
    double units = fleet->counts[0] + fleet->counts[1];
    if (fleet_ranks(fleet) <= SIZE_WINDOW_RANKS && units <= LIMIT_FLEET_UNITS) return sample;
    if (fleet->kind_count == 1) return (struct size_sample){{1, 0}, 1.0 / fleet->counts[0]};
    uint32_t few = fleet->counts[0] < fleet->counts[1] ? 0 : 1, many = 1 - few;
    double each = (double)fleet->counts[many] / fleet->counts[few];
    uint32_t most =
        min_u32(min_u32(fleet->counts[few], 3), (uint32_t)(LIMIT_FLEET_UNITS / (each + 1)));
    uint32_t best = 1;
    for (uint32_t n = 2; n <= most; n++) /* that loses the least by rounding down, and clearly so */
        if ((uint32_t)(n * each) / (n * each) > 1.05 * (uint32_t)(best * each) / (best * each))
            best = n;
    sample.counts[few] = best;
    sample.counts[many] = min_u32((uint32_t)(best * each), LIMIT_FLEET_UNITS - best);
    sample.share = (double)best / fleet->counts[few];
    return sample;
}

static struct twin_unit_kind kind_of(const struct size_options *options,
                                     const struct size_fleet *fleet, uint32_t index,
                                     uint32_t count) {
    const struct size_unit *unit = &fleet->kinds[index];
    bool prompts = unit->role == UNIT_PREFILL;
    uint32_t requests = prompts ? PROMPT_REQUESTS : min_u32(2 * unit->rows, LIMIT_UNIT_REQUESTS);
    return (struct twin_unit_kind){.count = count,
                                   .role = unit->role,
                                   .hardware = options->hardware,
                                   .ranks = unit->ranks,
                                   .ranks_per_node = options->hardware->gpus_per_node,
                                   .redundant_experts = unit->redundant_experts,
                                   .balance_experts = unit->ranks > 1,
                                   .rows_max = prompts ? PROMPT_REQUESTS : unit->rows,
                                   .requests_max = max_u32(requests, 16),
                                   .step_tokens_max = unit->step_tokens,
                                   .context_tokens_max = CONTEXT_TOKENS,
                                   .speculate = unit->mtp ? SPECULATE_ALWAYS : SPECULATE_NEVER,
                                   .overlap = unit->overlap,
                                   .level_steps = true,
                                   .prefix_cache = true,
                                   .kv_storage = fleet->storage};
}

void size_window_fleet(const struct size_options *options, const struct size_fleet *fleet,
                       const struct size_sample *sample, struct twin_options *options_out) {
    struct twin_options twin = {.model = options->model,
                                .kind_count = fleet->kind_count,
                                .gateways = GATEWAYS,
                                .gateway_requests_max = GATEWAY_REQUESTS,
                                .prefix_blocks = PREFIX_BLOCKS,
                                .storage_bytes = fleet->storage ? STORAGE_BYTES : 0,
                                .expert_skew = options->expert_skew,
                                .expert_drift = options->expert_drift,
                                .seed = options->seed};
    for (uint32_t k = 0; k < fleet->kind_count; k++)
        twin.kinds[k] = kind_of(options, fleet, k, sample->counts[k]);
    *options_out = twin;
}

struct day_moments size_window_moments(const struct size_options *options, bool storage) {
    const struct size_load *load = &options->load;
    double hit = storage ? load->hit_share : 0;
    return (struct day_moments){.in_out = load->prompt_mean / load->answer_mean,
                                .hit_share = hit,
                                .kv_mean = load->kv_mean,
                                .prompt_cv = load->prompt_cv,
                                .answer_cv = 1,
                                .first_share =
                                    FIRST_SHARE < (1 - hit) / 2 ? FIRST_SHARE : (1 - hit) / 2,
                                .prompt_max = CONTEXT_TOKENS - ANSWER_TOKENS,
                                .answer_max = ANSWER_TOKENS};
}

void size_window_load(const struct size_options *options, const struct size_fleet *fleet,
                      const struct size_sample *sample, const struct day_lengths *lengths,
                      double standing, struct day_load *load_out,
                      struct twin_options *options_out) {
    bool apart = fleet->kind_count == 2;
    uint32_t last = fleet->kind_count - 1;
    double fill_s = FILL_ANSWERS * options->load.answer_mean * options->tpot_s;
    double settle_s = apart ? SETTLE_S : 0, warm_s = apart ? WARM_S : fill_s;
    double measure_s = REQUESTS / (options->load.rate * sample->share),
           least = apart ? MEASURE_S : FILLED_S;
    measure_s = measure_s < least ? least : measure_s < MEASURE_S_MAX ? measure_s : MEASURE_S_MAX;
    double rows = apart ? standing * fleet->kinds[last].ranks * sample->counts[last] : 0;
    *load_out = (struct day_load){.lengths = *lengths,
                                  .rate = options->load.rate * sample->share,
                                  .standing_count = (uint32_t)rows,
                                  .begin_ns = (int64_t)(settle_s * SECOND_NS),
                                  .end_ns = (int64_t)((warm_s + measure_s) * SECOND_NS),
                                  .seed = options->seed};
    options_out->settle_ns = (int64_t)(settle_s * SECOND_NS);
    options_out->warm_ns = (int64_t)(warm_s * SECOND_NS);
    options_out->measure_ns = (int64_t)(measure_s * SECOND_NS);
    options_out->source = day_load_source(load_out);
}
