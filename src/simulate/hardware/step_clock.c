/* SPDX-License-Identifier: Apache-2.0
 * The time of a step is computed in three parts: the compute times of each rank for a micro-batch,
 * the time of the experts by the number of their pairs, and the execution of the overlap table with
 * both by all ranks. An "even schedule" executes the same table for one rank with the mean of all.
 * Its waits are attributed to communication, and the remaining time to differences between ranks.
 */
#include "simulate/hardware/step_clock.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/number.h"
#include "contract/memory_need.h"
#include "simulate/hardware/expert_world.h"
#include "simulate/hardware/overlap_schedule.h"
#include "simulate/hardware/step_rows.h"
#include "simulate/hardware/unit_schedule.h"

#define PAGE_TOKENS KV_BLOCK_TOKENS
#define US_S 1e-6
#define PRICED_PAIRS 32768 /* pairs of a rank: 4,096 tokens with 8 experts each */

struct step_clock {
    struct step_clock_options options;
    const struct hardware_stages *stages;
    /* fit of measured steps; if NULL, the members below are used */
    const struct step_fit *fit;
    struct expert_world experts;
    struct stage_transfers transfers[2]; /* in steps without prompts, with prompts */
    struct schedule_work work;           /* the even schedule's: the mean of all ranks */
    struct unit_schedule schedule;
};

/* The number of ranks on a node, as in the rebalancer. If not all nodes have the same number, there
 * is one node. */
static uint32_t node_ranks_of(const struct step_clock_options *options) {
    uint32_t each = options->ranks_per_node;
    return each && options->ranks % each == 0 ? each : 0;
}

static struct expert_world_options step_clock_experts(const struct step_clock_options *options) {
    return (struct expert_world_options){.model = options->model,
                                         .ranks = options->ranks,
                                         .redundant_experts = options->redundant_experts,
                                         .balances = options->balance_experts &&
                                                     !options->hardware->stages->rows,
                                         .skew = options->expert_skew,
                                         .drift = options->expert_drift,
                                         .seed = options->seed,
                                         .moves = options->hardware->stages->moves,
                                         .ranks_per_node = node_ranks_of(options)};
}

size_t step_clock_bytes(const struct step_clock_options *options) {
    struct expert_world_options experts = step_clock_experts(options);
    return sizeof(struct step_clock) + expert_world_bytes(&experts) + 256;
}

static enum status step_clock_check_options(const struct step_clock_options *options,
                                            const struct step_fit *fit, struct error *error) {
    const struct hardware_stages *stages = options->hardware->stages;
    if (options->ranks == 0 || options->ranks > LIMIT_RANKS || options->ranks_per_node == 0)
        return error_set(error, STATUS_INVALID, "expected 1 to %d ranks, and 1 or more on a node",
                         LIMIT_RANKS);
    if (stages->rows && strcmp(stages->rows->model, options->model->name) != 0)
        return error_set(error, STATUS_INVALID, "hardware %s: its steps are of model %s, not %s",
                         options->hardware->name, stages->rows->model, options->model->name);
    if (stages->rows && !fit)
        return error_set(error, STATUS_INVALID, "hardware %s: no steps of %u ranks were measured",
                         options->hardware->name, options->ranks);
    if (!stages->rows && options->ranks > 1 && !stages->has_links)
        return error_set(error, STATUS_INVALID, "hardware %s: %u ranks need stages.links",
                         options->hardware->name, options->ranks);
    if (options->balance_experts && options->ranks > 1 && !stages->rows && stages->moves.gbps <= 0)
        return error_set(error, STATUS_INVALID, "hardware %s: moving experts needs stages.moves",
                         options->hardware->name);
    return STATUS_OK;
}

/* The prices in a prefill step, from the rates of the hardware. The product's rebalancer measures
 * them. */
static struct rebalance_prices prices_of(const struct step_clock_options *options) {
    const struct model_figures *model = options->model;
    const double nodes = max_double(1, (double)options->ranks / options->ranks_per_node);
    const double slots = (double)model->experts / options->ranks, pairs = PRICED_PAIRS;
    const struct hardware_stages *stages = options->hardware->stages;
    const struct stage_transfers links =
        stage_rates_transfers(stages, model, options->ranks, options->ranks_per_node, true);
    const double token_us = links.dispatch_token_us + links.combine_token_us;
    const double expert_bytes = 3.0 * model->hidden * model->expert_hidden;
    struct rebalance_prices prices = {.passes = true, .makes_answers = options->makes_answers};
    if (nodes <= 1 || stages->rows) return prices;
    prices.pair_ns = stage_rates_experts(stages, model, pairs, slots, true) / pairs * 1e3;
    prices.copy_ns = token_us * 1e3 / (stage_rates_copies(model, nodes) * (1 - 1 / nodes));
    prices.near_ns = expert_bytes / options->hardware->nvlink_gbps;
    prices.far_ns = expert_bytes * 8 / options->hardware->nic_gbps;
    return prices;
}

enum status step_clock_open(struct arena *arena, const struct step_clock_options *options,
                            struct step_clock **clock_out, struct error *error) {
    const struct hardware_stages *stages = options->hardware->stages;
    const struct step_fit *fit = stages->rows ? step_rows_of(stages->rows, options->ranks) : NULL;
    enum status status = step_clock_check_options(options, fit, error);
    if (status) return status;
    struct step_clock *clock = arena_take_zeroed(arena, sizeof *clock);
    struct expert_world_options experts = step_clock_experts(options);
    experts.prices = prices_of(options);
    if (!clock || !expert_world_open(&clock->experts, arena, &experts))
        return error_set(error, STATUS_NO_MEMORY, "no memory for a unit's clock of %u ranks",
                         options->ranks);
    clock->options = *options;
    clock->stages = stages;
    clock->fit = fit;
    for (uint32_t prompts = 0; prompts < 2; prompts++)
        clock->transfers[prompts] = stage_rates_transfers(stages, options->model, options->ranks,
                                                          options->ranks_per_node, prompts);
    clock->work.layers = options->model->layers;
    clock->work.dense_layers = options->model->dense_layers;
    clock->work.expert_batches = stages->table ? SCHEDULE_EXPERT_BATCHES : 1;
    clock->work.follower = &clock->schedule.follower;
    clock->schedule.world = &clock->experts;
    clock->schedule.work = &clock->work;
    clock->schedule.ranks = options->ranks;
    clock->schedule.dense_layers = options->model->dense_layers;
    clock->schedule.pairs_per_token = options->model->experts_per_token;
    *clock_out = clock;
    return STATUS_OK;
}

/* ---- a step of measured hardware ---- */

static struct step_time measured_step(const struct step_clock *clock,
                                      const struct step_share *shares) {
    const uint32_t ranks = clock->options.ranks;
    struct step_load mean = {0};
    double slowest = 0, own = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        step_load_add(&mean, &shares[r].load, 1.0 / ranks);
        if (step_load_tokens(&shares[r].load) <= 0) continue;
        double us = step_rows_fit_us(clock->fit, &shares[r].load) * shares[r].slowness;
        slowest = max_double(slowest, us);
        own += us;
    }
    double even = clock->fit->evenness;
    double us = (1 - even) * slowest + even * step_rows_fit_us(clock->fit, &mean);
    struct step_time time = {.ns = (int64_t)(us * 1e3)};
    if (slowest <= 0) return (struct step_time){0};
    time.spent[SPENT_OTHER] = (own < us * ranks ? own : us * ranks) * US_S;
    time.spent[SPENT_IMBALANCE] = us * ranks * US_S - time.spent[SPENT_OTHER];
    return time;
}

/* ---- a step by stages ---- */

/* Adds the time of a second launch of core attention, for tables that run a part of it in
 * ATTENTION_0. */
static void begin_early(const struct overlap *overlap, struct stage_times *us) {
    double early = us->core * overlap->early_sixteenths / 16;
    if (early <= 0) return;
    us->attention_0 += us->core_begin + early;
    us->attention_1 -= early;
}

/* Computes the times of micro-batches of one size for each rank, and their means for the even
 * schedule. */
static void time_ranks(struct step_clock *clock, const struct overlap *overlap,
                       const struct step_share *shares, double part, bool prompts,
                       struct unit_schedule_micro_batch *micro_batch,
                       struct schedule_micro_batch *mean) {
    const uint32_t ranks = clock->options.ranks;
    double tokens = 0;
    *mean = (struct schedule_micro_batch){0};
    for (uint32_t r = 0; r < ranks; r++) {
        struct step_load load = {0};
        step_load_add(&load, &shares[r].load, part);
        struct stage_times us =
            stage_rates_times(clock->stages, clock->options.model, &load, prompts);
        const double slowness = shares[r].slowness;
        begin_early(overlap, &us);
        micro_batch->tokens[r] = step_load_tokens(&load);
        mean->attention_0 += (micro_batch->attention_0[r] = us.attention_0 * slowness) / ranks;
        mean->attention_1 += (micro_batch->attention_1[r] = us.attention_1 * slowness) / ranks;
        mean->shared += (micro_batch->shared[r] = us.shared * slowness) / ranks;
        mean->dense += (micro_batch->dense[r] = us.dense * slowness) / ranks;
        tokens += micro_batch->tokens[r];
    }
    micro_batch->pairs = tokens / ranks * clock->options.model->experts_per_token;
}

/* Computes the times of the experts by the pairs of their rank. The even schedule uses the mean. */
static void time_experts(struct step_clock *clock, bool prompts,
                         struct unit_schedule_micro_batch *micro_batch,
                         struct schedule_layer *layers) {
    const struct model_figures *model = clock->options.model;
    const struct stage_transfers *links = &clock->schedule.transfers;
    const double slots = clock->experts.slots_per_rank;
    const double tokens = micro_batch->pairs / model->experts_per_token;
    for (uint32_t i = 0; i <= UNIT_SCHEDULE_TIMES; i++) {
        double pairs = micro_batch->pairs * UNIT_SCHEDULE_TIMES_MEANS * i / UNIT_SCHEDULE_TIMES;
        micro_batch->experts[i] = stage_rates_experts(clock->stages, model, pairs, slots, prompts);
    }
    const struct schedule_layer mean = {
        .mlp = micro_batch->experts[UNIT_SCHEDULE_TIMES / UNIT_SCHEDULE_TIMES_MEANS] +
               clock->schedule.issue,
        .dispatch = links->dispatch_us + tokens * links->dispatch_token_us,
        .combine = links->combine_us + tokens * links->combine_token_us};
    for (uint32_t i = 0; i < clock->experts.layers; i++)
        layers[model->dense_layers + i] = mean;
}

static void begin_schedule(struct step_clock *clock, const struct step_share *shares,
                           bool prompts) {
    const struct step_clock_options *options = &clock->options;
    const double nodes = (double)options->ranks / options->ranks_per_node;
    struct unit_schedule *schedule = &clock->schedule;
    unit_schedule_begin(schedule);
    schedule->issue = prompts || options->ranks == 1 ? 0 : clock->stages->answer.issue_us;
    schedule->whole_copies = prompts ? stage_rates_copies(options->model, nodes) : 0;
    schedule->transfers = clock->transfers[prompts];
    if (expert_world_is_moving(&clock->experts)) {
        double left = 1 - clock->stages->moves.gbps / options->hardware->nic_gbps;
        schedule->transfers.dispatch_token_us /= max_double(0.1, left);
        schedule->transfers.combine_token_us /= max_double(0.1, left);
    }
    for (uint32_t r = 0; r < options->ranks; r++)
        schedule->slowness[r] = shares[r].slowness;
}

/* Attributes the time of all ranks. Waits of the even schedule are communication that no
 * computation hides. The time beyond the even schedule is spent waiting for other ranks. */
static void step_clock_spend(const struct step_clock *clock, struct step_time *time, double us,
                             double waited, double other, double stall) {
    const double ranks = clock->options.ranks;
    double known = 0;
    time->spent[SPENT_EXPERTS] += clock->schedule.experts_us * US_S;
    time->spent[SPENT_COMM] = ranks * waited * US_S;
    time->spent[SPENT_OTHER] += ranks * other * US_S;
    time->spent[SPENT_MOVES] = ranks * stall * US_S;
    for (int i = 0; i < STEP_SPENT_COUNT; i++)
        known += time->spent[i];
    time->spent[SPENT_IMBALANCE] = max_double(0, ranks * us * US_S - known);
}

/* Adds the times of the ranks in micro-batches of one size. */
static void spend_micro_batches(const struct step_clock *clock, struct step_time *time,
                                const struct schedule_micro_batch *mean, double micro_batches) {
    const double ranks = clock->options.ranks, all = clock->work.layers;
    const double dense = clock->work.dense_layers, sparse = all - dense;
    time->spent[SPENT_ATTENTION] +=
        micro_batches * ranks * all * (mean->attention_0 + mean->attention_1) * US_S;
    time->spent[SPENT_SHARED] += micro_batches * ranks * sparse * mean->shared * US_S;
    time->spent[SPENT_EXPERTS] += micro_batches * ranks * dense * mean->dense * US_S;
    time->spent[SPENT_OTHER] += micro_batches * ranks * sparse * clock->schedule.issue * US_S;
}

static void report_work(const struct step_clock *clock, const struct step_share *shares,
                        bool *prompts_out, bool *answers_out, double *tokens_out) {
    *prompts_out = *answers_out = false;
    *tokens_out = 0;
    for (uint32_t r = 0; r < clock->options.ranks; r++) {
        *prompts_out |= shares[r].load.prompt_tokens > 0;
        *answers_out |= shares[r].load.answer_tokens > 0;
        *tokens_out += step_load_tokens(&shares[r].load);
    }
}

struct step_time step_clock_step(struct step_clock *clock, const struct step_share *shares,
                                 enum overlap_kind kind, int64_t now_ns) {
    const struct overlap *overlap = overlap_of(kind);
    struct schedule_work *work = &clock->work;
    struct step_time time = {0};
    bool prompts, answers;
    double tokens, waited, whole = 0;
    if (clock->fit) return measured_step(clock, shares);
    report_work(clock, shares, &prompts, &answers, &tokens);
    if (tokens == 0) return time;
    double stall = expert_world_advance(&clock->experts, now_ns, tokens);
    uint32_t counts[SCHEDULE_SIZES] = {0};
    for (uint32_t micro_batch = 0; micro_batch < overlap->micro_batch_count; micro_batch++) {
        uint8_t share = overlap->shares ? overlap->shares[micro_batch] : 1;
        work->sizes[micro_batch] = overlap->shares && share != overlap->shares[0];
        counts[work->sizes[micro_batch]]++;
        whole += share;
    }
    begin_schedule(clock, shares, prompts);
    for (uint32_t size = 0; size < SCHEDULE_SIZES; size++) {
        if (!counts[size]) continue;
        struct unit_schedule_micro_batch *micro_batch = &clock->schedule.micro_batches[size];
        time_ranks(clock, overlap, shares, (size ? 2 : 1) / whole, prompts, micro_batch,
                   &work->micro_batches[size]);
        time_experts(clock, prompts, micro_batch, work->experts[size]);
        spend_micro_batches(clock, &time, &work->micro_batches[size], counts[size]);
    }
    double even = overlap_schedule(overlap, work, &waited);
    /* 1, or the total time over the executed time */
    double part = even / work->follower->walked;
    double layers = unit_schedule_end(&clock->schedule) * part;
    clock->schedule.experts_us *= part;
    double other = max_double(prompts ? clock->stages->prompt.step_us : 0,
                              answers ? clock->stages->answer.step_us : 0);
    double us = layers + other + stall;
    time.ns = (int64_t)(us * 1e3);
    time.layers_ns = (int64_t)(layers * 1e3);
    step_clock_spend(clock, &time, us, waited, other, stall);
    return time;
}

/* ---- queries ---- */

void step_clock_heat(struct step_clock *clock, double factor, int64_t now_ns) {
    expert_world_heat(&clock->experts, factor, now_ns);
}

double step_clock_balance(const struct step_clock *clock, uint32_t layer) {
    check(layer < clock->options.model->layers);
    if (clock->fit || layer < clock->options.model->dense_layers) return 1;
    return expert_world_balance(&clock->experts, layer - clock->options.model->dense_layers);
}

double step_clock_balance_mean(const struct step_clock *clock) {
    double sum = 0;
    for (uint32_t i = 0; i < clock->experts.layers && !clock->fit; i++)
        sum += expert_world_balance(&clock->experts, i);
    return clock->fit || clock->experts.layers == 0 ? 1 : sum / clock->experts.layers;
}

uint64_t step_clock_moves(const struct step_clock *clock) {
    return clock->experts.move_count;
}

/* FP8 weights; the embedding and the LM head are BF16. */
double step_clock_weight_bytes(const struct step_clock *clock) {
    const struct model_figures *m = clock->options.model;
    if (clock->fit) return clock->stages->rows->weight_bytes;
    const struct memory_weights weights = {
        .common = stage_rates_weights(m) + 2 * 2.0 * m->vocab * m->hidden,
        .expert = 3.0 * m->hidden * m->expert_hidden,
        .moe_layers = clock->experts.layers,
    };
    return memory_need_rank(&weights, clock->experts.slots_per_rank);
}

uint32_t step_clock_page_count(const struct step_clock *clock) {
    if (clock->fit && clock->stages->rows->page_count > 0)
        return (uint32_t)clock->stages->rows->page_count;
    double left = clock->options.hardware->hbm_bytes - step_clock_weight_bytes(clock);
    double pages = left / (clock->options.model->kv_bytes_per_token * PAGE_TOKENS);
    return pages < 1 ? 0 : pages > 4e9 ? UINT32_MAX : (uint32_t)pages;
}
