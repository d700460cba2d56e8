/* SPDX-License-Identifier: Apache-2.0
 * fathom bench exchange: dispatch and combine of random tokens between ranks, without a model, as
 * medians with their spread, beside messages of as many bytes between contiguous buffers and nothing
 * else (job_swap), in turn in the same rounds: the floor. The exchange's times include all it does: choosing slots, gathering rows
 * into messages, sorting what came by expert.
 *
 * With groups of experts, each lies on as few ranks as it can, tokens choose among some groups as a
 * router does, and the exchange whose results are summed by groups runs beside the one whose
 * results come back one by one. What a group's sum takes is arithmetic and not in these times.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/random.h"
#include "bench/bench.h"
#include "bench/machine_limits.h"
#include "command/rank_job.h"
#include "compute/exchange/exchange.h"
#include "compute/exchange/job.h"
#include "compute/model/exchange_rows.h"

#define ROUNDS_MAX 999
#define WARM_UP 3

struct exchange_values {
    struct rank_job_values job;
    uint64_t tokens, hidden, experts, per_token, groups, groups_kept, rounds;
    const char *form;
    bool json;
};

static const struct option exchange_rows[] = {
    RANK_JOB_OPTIONS(struct exchange_values),
    {.name = "tokens",
     .type = OPTION_COUNT,
     .fallback = "128",
     .help = "tokens that each rank dispatches",
     .offset = offsetof(struct exchange_values, tokens),
     .minimum = 1,
     .maximum = LIMIT_STEP_TOKENS},
    {.name = "hidden",
     .type = OPTION_COUNT,
     .fallback = "7168",
     .help = "channels of a token",
     .offset = offsetof(struct exchange_values, hidden),
     .minimum = 16,
     .maximum = 65536},
    {.name = "experts",
     .type = OPTION_COUNT,
     .fallback = "256",
     .help = "experts of the layer",
     .offset = offsetof(struct exchange_values, experts),
     .minimum = 1,
     .maximum = LIMIT_EXPERTS},
    {.name = "experts-per-token",
     .type = OPTION_COUNT,
     .fallback = "8",
     .help = "experts that a token goes to",
     .offset = offsetof(struct exchange_values, per_token),
     .minimum = 1,
     .maximum = LIMIT_TOP_K_EXPERTS},
    {.name = "groups",
     .type = OPTION_COUNT,
     .fallback = "1",
     .help = "groups of experts; more than one: results are also summed by groups",
     .offset = offsetof(struct exchange_values, groups),
     .minimum = 1,
     .maximum = LIMIT_EXPERTS},
    {.name = "groups-kept",
     .type = OPTION_COUNT,
     .help = "groups that a token's experts are of; 0: all",
     .offset = offsetof(struct exchange_values, groups_kept),
     .maximum = LIMIT_EXPERTS},
    {.name = "form",
     .type = OPTION_CHOICE,
     .fallback = "fp8",
     .choices = "fp8|bf16|f32",
     .help = "form of the activations that go out; results come back in BF16, or F32 with f32",
     .offset = offsetof(struct exchange_values, form)},
    {.name = "rounds",
     .type = OPTION_COUNT,
     .fallback = "51",
     .help = "repetitions, of which the median counts",
     .offset = offsetof(struct exchange_values, rounds),
     .minimum = 7,
     .maximum = ROUNDS_MAX},
    {.name = "json",
     .type = OPTION_FLAG,
     .help = "print one JSON object",
     .offset = offsetof(struct exchange_values, json)},
};

const struct option_table bench_exchange_options = {
    .command = "bench exchange",
    .arguments = "",
    .description = "Times the expert exchange between ranks beside bare messages of as many bytes.",
    .options = exchange_rows,
    .option_count = ARRAY_COUNT(exchange_rows),
};

enum exchange_figure { DISPATCH, COMBINE, DISPATCH_BY_GROUPS, COMBINE_BY_GROUPS, FIGURE_COUNT };

struct exchange_bench {
    struct exchange_values values;
    struct placement placement;
    struct exchange *exchanges[2];          /* results one by one; by groups, NULL without groups */
    uint32_t dispatch_bytes, combine_bytes; /* of a row */
    uint32_t *chosen;                       /* [tokens][per_token] */
    float *weights;                         /* [tokens][per_token] */
    char *activations;                      /* [tokens][dispatch_bytes] */
    char *out, *in;                         /* [ranks][largest] for bare messages */
    uint32_t figure_count;
    uint64_t bytes[FIGURE_COUNT]; /* that rank 0 sends */
    double seconds[FIGURE_COUNT][ROUNDS_MAX], swap_seconds[FIGURE_COUNT][ROUNDS_MAX];
};

static void draw_experts(struct exchange_bench *bench) {
    const struct exchange_values *values = &bench->values;
    uint32_t at = 0, experts = (uint32_t)values->experts, groups = (uint32_t)values->groups;
    for (uint32_t token = 0; token < values->tokens; token++) {
        uint32_t wanted = (uint32_t)values->per_token, kept = (uint32_t)values->groups_kept;
        uint32_t left = kept * (experts / groups);
        for (uint32_t group = 0; group < groups; group++) { /* ascending, each set as likely */
            if (groups > 1 &&
                random_uniform(job_rank(), token, experts + group) * (groups - group) >= kept)
                continue;
            kept--;
            for (uint32_t i = 0; i < experts / groups; i++, left--) {
                uint32_t expert = group * (experts / groups) + i;
                if (random_uniform(job_rank(), token, expert) * left >= wanted) continue;
                bench->chosen[at++] = expert;
                wanted--;
            }
        }
    }
    check(at == values->tokens * values->per_token);
}

/* Experts in their order, so that a group lies on as few ranks as it can; behind them replicas. */
static void place_in_order(struct placement *placement) {
    for (uint32_t slot = 0; slot < placement->ranks * placement->slots_per_rank; slot++)
        placement->slot_expert[slot] = slot % placement->experts;
}

static enum status open_exchanges(struct exchange_bench *bench, struct error *error) {
    const struct exchange_values *values = &bench->values;
    struct exchange_options options = {.tokens_max = (uint32_t)values->tokens,
                                       .experts = (uint32_t)values->experts,
                                       .experts_per_token = (uint32_t)values->per_token,
                                       .placement = &bench->placement,
                                       .rank = job_rank(),
                                       .dispatch_bytes = bench->dispatch_bytes,
                                       .combine_bytes = bench->combine_bytes};
    enum status status = exchange_open_ranks(&options, &bench->exchanges[0], error);
    bench->figure_count = values->groups > 1 ? FIGURE_COUNT : DISPATCH_BY_GROUPS;
    if (status != STATUS_OK || values->groups == 1) return status;
    options.channel = 1;
    options.group_experts = (uint32_t)(values->experts / values->groups);
    return exchange_open_ranks(&options, &bench->exchanges[1], error);
}

static enum status open_bench(struct exchange_bench *bench, struct error *error) {
    const struct exchange_values *values = &bench->values;
    uint32_t experts = (uint32_t)values->experts, ranks = job_count();
    bool f32 = !strcmp(values->form, "f32"), fp8 = !strcmp(values->form, "fp8");
    bench->dispatch_bytes = (uint32_t)exchange_rows_bytes(f32   ? ROW_F32
                                                          : fp8 ? ROW_FP8
                                                                : ROW_BF16,
                                                          (uint32_t)values->hidden);
    bench->combine_bytes =
        (uint32_t)exchange_rows_bytes(f32 ? ROW_F32 : ROW_BF16, (uint32_t)values->hidden);
    enum status status = placement_open(
        &bench->placement, 1, experts, ranks,
        placement_slots_per_rank(experts, ranks, (uint32_t)values->job.redundant), error);
    if (status != STATUS_OK) return status;
    placement_spread(&bench->placement, values->job.seed);
    if (values->groups > 1 && !values->job.seed) place_in_order(&bench->placement);
    status = placement_index(&bench->placement, error);
    if (status == STATUS_OK) status = open_exchanges(bench, error);
    if (status != STATUS_OK) return status;
    bench->chosen = calloc(values->tokens * values->per_token, sizeof *bench->chosen);
    bench->weights = calloc(values->tokens * values->per_token, sizeof *bench->weights);
    bench->activations = calloc(values->tokens, bench->dispatch_bytes);
    if (bench->chosen && bench->weights && bench->activations) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for the tokens");
}

/* One dispatch and combine; the ranks begin each together. */
static void run_exchange(struct exchange_bench *bench, uint32_t which, uint32_t round) {
    struct exchange *exchange = bench->exchanges[which];
    uint32_t dispatch = 2 * which, combine = dispatch + 1;
    struct exchange_received received;
    struct exchange_returned returned;
    job_barrier();
    double start = machine_limits_now();
    exchange_dispatch_begin(exchange, 0, bench->chosen, bench->weights,
                            (uint32_t)bench->values.tokens, bench->activations);
    exchange_dispatch_finish(exchange, &received);
    bench->seconds[dispatch][round] = machine_limits_now() - start;
    bench->bytes[dispatch] = exchange_last(exchange).bytes_sent;
    for (uint32_t row = 0; row < received.row_count; row++)
        memset(exchange_result(exchange, row), (int)row, bench->combine_bytes);
    for (uint32_t i = 0; i < received.sum_count; i++)
        memset(received.sums[i].sum, (int)i, bench->combine_bytes);
    job_barrier();
    start = machine_limits_now();
    if (received.row_count) exchange_combine_begin(exchange, 0, received.row_count);
    exchange_combine_finish(exchange, &returned);
    bench->seconds[combine][round] = machine_limits_now() - start;
    bench->bytes[combine] = exchange_last(exchange).bytes_sent;
}

static void run_exchanges(struct exchange_bench *bench, uint32_t round) {
    for (uint32_t which = 0; which < 2; which++)
        if (bench->exchanges[which]) run_exchange(bench, which, round);
}

static double run_swap(struct exchange_bench *bench, uint64_t bytes) {
    job_barrier();
    double start = machine_limits_now();
    job_swap(bench->out, bench->in, bytes);
    return machine_limits_now() - start;
}

/* All ranks swap as much as rank 0 sends to each of the others, on average. */
static void agree_on_bytes(struct exchange_bench *bench, uint64_t each[static FIGURE_COUNT]) {
    uint32_t others = job_count() - 1;
    for (uint32_t i = 0; i < FIGURE_COUNT; i++)
        each[i] = bench->bytes[i] / others;
    for (uint32_t rank = 1; rank <= others && job_rank() == 0; rank++)
        job_send(rank, each, FIGURE_COUNT * sizeof *each);
    if (job_rank()) job_receive(0, each, FIGURE_COUNT * sizeof *each);
}

static enum status measure(struct exchange_bench *bench, struct error *error) {
    uint64_t each[FIGURE_COUNT], largest = 0;
    draw_experts(bench);
    for (uint32_t i = 0; i < WARM_UP; i++)
        run_exchanges(bench, 0);
    agree_on_bytes(bench, each);
    for (uint32_t i = 0; i < bench->figure_count; i++)
        if (each[i] > largest) largest = each[i];
    bench->out = calloc(job_count(), largest + 1);
    bench->in = calloc(job_count(), largest + 1);
    if (!bench->out || !bench->in) return error_set(error, STATUS_NO_MEMORY, "no memory");
    for (uint32_t i = 0; i < WARM_UP; i++)
        run_swap(bench, largest);
    for (uint32_t round = 0; round < bench->values.rounds; round++) {
        run_exchanges(bench, round);
        for (uint32_t i = 0; i < bench->figure_count; i++)
            bench->swap_seconds[i][round] = run_swap(bench, each[i]);
    }
    return STATUS_OK;
}

static void print(struct exchange_bench *bench) {
    static const char *const keys[] = {"dispatch", "combine", "dispatch_by_groups",
                                       "combine_by_groups"};
    static const char *const names[] = {"dispatch", "combine", "dispatch by groups",
                                        "combine by groups"};
    uint32_t rounds = (uint32_t)bench->values.rounds;
    bool json = bench->values.json;
    if (json)
        printf("{\"ranks\":%u,\"tokens\":%u,\"rounds\":%u", job_count(),
               (uint32_t)bench->values.tokens, rounds);
    else
        printf("%u ranks, %u tokens each; median of %u rounds (10%% and 90%% of them)\n",
               job_count(), (uint32_t)bench->values.tokens, rounds);
    for (uint32_t i = 0; i < bench->figure_count; i++) {
        double *own = bench->seconds[i], *swap = bench->swap_seconds[i];
        double median = machine_limits_median(own, rounds); /* sorted now */
        double swap_median = machine_limits_median(swap, rounds);
        uint32_t low = rounds / 10, high = rounds - 1 - rounds / 10;
        double megabytes = (double)bench->bytes[i] * 1e-6;
        double token_kb = (double)bench->bytes[i] * 1e-3 / (double)bench->values.tokens;
        if (json)
            printf(",\n \"%s\":{\"bytes\":%.0f,\"seconds\":%.4g,\"low\":%.4g,\"high\":%.4g,"
                   "\"floor_seconds\":%.4g,\"floor_low\":%.4g,\"floor_high\":%.4g,"
                   "\"ratio\":%.3f}",
                   keys[i], (double)bench->bytes[i], median, own[low], own[high], swap_median,
                   swap[low], swap[high], median / swap_median);
        else
            printf("%-*s %8.3f MB out, %5.1f kB a token  %8.1f us (%.1f..%.1f)  bare messages "
                   "%8.1f us (%.1f..%.1f)  ratio %.2f\n",
                   bench->figure_count == FIGURE_COUNT ? 18 : 8, names[i], megabytes, token_kb,
                   median * 1e6, own[low] * 1e6, own[high] * 1e6, swap_median * 1e6,
                   swap[low] * 1e6, swap[high] * 1e6, median / swap_median);
    }
    if (json) printf("}\n");
}

int bench_exchange(int argc, char **argv) {
    static struct exchange_bench bench;
    struct option_result result;
    struct error error = {.text = ""};
    int exit_code;
    if (!command_begin(&bench_exchange_options, argc, argv, &bench.values, &result, &exit_code))
        return exit_code;
    if (bench.values.job.ranks == 1) /* as if not given: there is nothing to measure alone */
        return command_misused(&bench_exchange_options, "--ranks must be 2 or more");
    if (bench.values.per_token > bench.values.experts)
        return command_misused(&bench_exchange_options,
                               "--experts-per-token is more than --experts");
    if (bench.values.groups_kept == 0) bench.values.groups_kept = bench.values.groups;
    uint64_t group_experts = bench.values.experts / bench.values.groups;
    if (bench.values.experts % bench.values.groups ||
        bench.values.groups_kept > bench.values.groups ||
        bench.values.groups_kept * group_experts < bench.values.per_token)
        return command_misused(&bench_exchange_options,
                               "--groups must divide --experts, and --groups-kept of them must "
                               "have --experts-per-token");
    if (rank_job_begin_alike(&bench_exchange_options, &bench.values.job, &exit_code))
        return exit_code;
    enum status status = open_bench(&bench, &error);
    if (status == STATUS_OK) status = measure(&bench, &error);
    if (status == STATUS_OK && job_rank() == 0) print(&bench);
    exchange_close(bench.exchanges[0]);
    exchange_close(bench.exchanges[1]);
    placement_close(&bench.placement);
    free(bench.chosen);
    free(bench.weights);
    free(bench.activations);
    free(bench.out);
    free(bench.in);
    exit_code = status == STATUS_OK ? command_end(&bench_exchange_options)
                                    : command_failed(&bench_exchange_options, status, &error);
    job_end();
    return exit_code;
}
