/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/size_window.h"

#include <math.h>

#include "base/limits.h"
#include "base/number.h"
#include "serving/policy/speculate.h"

#define SECOND_NS 1e9
#define SETTLE_S 1.0
#define WARM_S 2.0 /* time after settling */
/* For prompts alone: the time after which the number of long prompts is in a steady state. */
#define LONG_WARM_S 10.0
#define LONG_MEASURE_S 15.0
#define MEASURE_S 4.0 /* or as long as REQUESTS requests take to arrive */
#define MEASURE_S_MAX 60.0
#define REQUESTS 800
#define PROMPT_UNITS 6
#define FILL 1.3 /* factor on the number of steps that standing requests of a combined unit fill */
#define GATEWAYS 1
#define GATEWAY_REQUESTS 65536
#define PREFIX_BLOCKS (1 << 18)
#define CONTEXT_TOKENS 131072
#define ANSWER_TOKENS 16384
#define STORAGE_BYTES 1e15
#define FIRST_SHARE 0.3 /* of requests that begin a conversation; less if the hits require it */
#define PROMPT_REQUESTS 512

struct size_sample size_window_sample(const struct size_load *load, const struct size_fleet *fleet,
                                      enum size_focus focus) {
    struct size_sample sample = {focus, {fleet->counts[0], fleet->counts[1]}, 1};
    if (focus == SIZE_PROMPTS) {
        sample.counts[0] = min_u32(fleet->counts[0], PROMPT_UNITS);
        sample.share = (double)sample.counts[0] / fleet->counts[0];
        sample.counts[1] = (uint32_t)ceil(fleet->counts[1] * sample.share);
    } else if (focus == SIZE_ANSWERS) {
        sample.counts[0] = sample.counts[1] = 1;
        sample.share = 1.0 / fleet->counts[1];
    } else if (fleet->kind_count == 1 && !size_growth_whole(load, fleet)) {
        sample.counts[0] = 1;
        sample.share = 1.0 / fleet->counts[0];
    }
    return sample;
}

static struct simulator_unit_kind size_window_kind_of(const struct size_options *options,
                                                      const struct size_fleet *fleet,
                                                      uint32_t index, uint32_t count) {
    const struct size_unit *unit = &fleet->kinds[index];
    bool prompts = unit->role == UNIT_PREFILL;
    uint32_t requests = prompts ? PROMPT_REQUESTS : min_u32(2 * unit->rows, LIMIT_UNIT_REQUESTS);
    return (struct simulator_unit_kind){.count = count,
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

void size_window_set_fleet(const struct size_options *options, const struct size_fleet *fleet,
                           const struct size_sample *sample,
                           struct simulator_options *options_out) {
    struct simulator_options simulator = {.model = options->model,
                                          .kind_count = fleet->kind_count,
                                          .gateways = GATEWAYS,
                                          .gateway_requests_max = GATEWAY_REQUESTS,
                                          .prefix_blocks = PREFIX_BLOCKS,
                                          .storage_bytes = fleet->storage ? STORAGE_BYTES : 0,
                                          .expert_skew = options->expert_skew,
                                          .expert_drift = options->expert_drift,
                                          .seed = options->seed};
    for (uint32_t k = 0; k < fleet->kind_count; k++)
        simulator.kinds[k] = size_window_kind_of(options, fleet, k, sample->counts[k]);
    *options_out = simulator;
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

void size_window_set_load(const struct size_options *options, const struct size_fleet *fleet,
                          const struct size_sample *sample, const struct day_lengths *lengths,
                          double standing, struct day_load *load_out,
                          struct simulator_options *options_out) {
    uint32_t last = fleet->kind_count - 1;
    const struct size_unit *answers = &fleet->kinds[last];
    bool prompts_alone = sample->focus == SIZE_PROMPTS, apart = last > 0;
    double rows = prompts_alone ? 0 : standing * answers->ranks * sample->counts[last];
    double fill = standing * options->load.kv_mean / answers->step_tokens * answers->step_s;
    double settle_s = prompts_alone ? 0 : SETTLE_S + (apart ? 0 : FILL * fill);
    double warm_s = settle_s + (prompts_alone ? LONG_WARM_S : WARM_S);
    double measure_s = REQUESTS / (options->load.rate * sample->share);
    double least = prompts_alone ? LONG_MEASURE_S : MEASURE_S;
    measure_s = measure_s < least ? least : measure_s < MEASURE_S_MAX ? measure_s : MEASURE_S_MAX;
    if (sample->focus != SIZE_ANSWERS) measure_s += options->ttft_s;
    *load_out = (struct day_load){.lengths = *lengths,
                                  .rate = options->load.rate * sample->share,
                                  .standing_count = (uint32_t)rows,
                                  .begin_ns = (int64_t)(settle_s * SECOND_NS),
                                  .end_ns = (int64_t)((warm_s + measure_s) * SECOND_NS),
                                  .seed = options->seed};
    if (sample->focus == SIZE_ANSWERS) settle_s = warm_s + measure_s;
    options_out->settle_ns = (int64_t)(settle_s * SECOND_NS);
    options_out->warm_ns = (int64_t)(warm_s * SECOND_NS);
    options_out->measure_ns = (int64_t)(measure_s * SECOND_NS);
    options_out->source = day_load_source(load_out);
}
