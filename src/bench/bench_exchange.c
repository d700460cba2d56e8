/* SPDX-License-Identifier: Apache-2.0
 * fathom bench exchange: dispatch and combine of random tokens between ranks, without a model, as
 * medians with their spread, beside messages of as many bytes between contiguous buffers and nothing
 * else (job_swap), in turn in the same rounds: the floor. The exchange's times include all it does: choosing slots, gathering rows
 * into messages, sorting what came by expert.
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
    uint64_t tokens, hidden, experts, per_token, rounds;
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

enum exchange_figure { DISPATCH, COMBINE, SWAP_DISPATCH, SWAP_COMBINE, FIGURE_COUNT };

struct exchange_bench {
    struct exchange_values values;
    struct placement placement;
    struct exchange *exchange;
    uint32_t dispatch_bytes, combine_bytes; /* of a row */
    uint32_t *chosen;                       /* [tokens][per_token] */
    char *activations;                      /* [tokens][dispatch_bytes] */
    char *out, *in;                         /* [ranks][largest] for bare messages */
    uint64_t bytes[2];                      /* that rank 0 sends: dispatch, combine */
    double seconds[FIGURE_COUNT][ROUNDS_MAX];
};

static void draw_experts(struct exchange_bench *bench) {
    const struct exchange_values *values = &bench->values;
    uint32_t at = 0;
    for (uint32_t token = 0; token < values->tokens; token++) {
        uint32_t wanted = (uint32_t)values->per_token, experts = (uint32_t)values->experts;
        for (uint32_t expert = 0; expert < experts; expert++)
            if (random_uniform(job_rank(), token, expert) * (experts - expert) < wanted) {
                bench->chosen[at++] = expert;
                wanted--;
            }
    }
    check(at == values->tokens * values->per_token);
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
    status = placement_index(&bench->placement, error);
    struct exchange_options options = {.tokens_max = (uint32_t)values->tokens,
                                       .experts = experts,
                                       .experts_per_token = (uint32_t)values->per_token,
                                       .placement = &bench->placement,
                                       .rank = job_rank(),
                                       .dispatch_bytes = bench->dispatch_bytes,
                                       .combine_bytes = bench->combine_bytes};
    if (status == STATUS_OK) status = exchange_open_ranks(&options, &bench->exchange, error);
    if (status != STATUS_OK) return status;
    bench->chosen = calloc(values->tokens * values->per_token, sizeof *bench->chosen);
    bench->activations = calloc(values->tokens, bench->dispatch_bytes);
    if (bench->chosen && bench->activations) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for the tokens");
}

/* One dispatch and combine; the ranks begin each together. */
static void run_exchange(struct exchange_bench *bench, double *dispatch_out, double *combine_out) {
    struct exchange_received received;
    struct exchange_returned returned;
    job_barrier();
    double start = machine_limits_now();
    exchange_dispatch_begin(bench->exchange, 0, bench->chosen, (uint32_t)bench->values.tokens,
                            bench->activations);
    exchange_dispatch_finish(bench->exchange, &received);
    *dispatch_out = machine_limits_now() - start;
    bench->bytes[0] = exchange_last(bench->exchange).bytes_sent;
    for (uint32_t row = 0; row < received.row_count; row++)
        memset(exchange_result(bench->exchange, row), (int)row, bench->combine_bytes);
    job_barrier();
    start = machine_limits_now();
    if (received.row_count) exchange_combine_begin(bench->exchange, 0, received.row_count);
    exchange_combine_finish(bench->exchange, &returned);
    *combine_out = machine_limits_now() - start;
    bench->bytes[1] = exchange_last(bench->exchange).bytes_sent;
}

static double run_swap(struct exchange_bench *bench, uint64_t bytes) {
    job_barrier();
    double start = machine_limits_now();
    job_swap(bench->out, bench->in, bytes);
    return machine_limits_now() - start;
}

/* All ranks swap as much as rank 0 sends to each of the others, on average. */
static void agree_on_bytes(struct exchange_bench *bench, uint64_t *each /* [2] */) {
    uint32_t others = job_count() - 1;
    for (uint32_t i = 0; i < 2; i++)
        each[i] = bench->bytes[i] / others;
    for (uint32_t rank = 1; rank <= others && job_rank() == 0; rank++)
        job_send(rank, each, 2 * sizeof *each);
    if (job_rank()) job_receive(0, each, 2 * sizeof *each);
}

static enum status measure(struct exchange_bench *bench, struct error *error) {
    uint64_t each[2];
    double unused;
    draw_experts(bench);
    for (uint32_t i = 0; i < WARM_UP; i++)
        run_exchange(bench, &unused, &unused);
    agree_on_bytes(bench, each);
    size_t largest = each[0] > each[1] ? each[0] : each[1];
    bench->out = calloc(job_count(), largest + 1);
    bench->in = calloc(job_count(), largest + 1);
    if (!bench->out || !bench->in) return error_set(error, STATUS_NO_MEMORY, "no memory");
    for (uint32_t i = 0; i < WARM_UP; i++)
        run_swap(bench, largest);
    for (uint32_t round = 0; round < bench->values.rounds; round++) {
        run_exchange(bench, &bench->seconds[DISPATCH][round], &bench->seconds[COMBINE][round]);
        bench->seconds[SWAP_DISPATCH][round] = run_swap(bench, each[0]);
        bench->seconds[SWAP_COMBINE][round] = run_swap(bench, each[1]);
    }
    return STATUS_OK;
}

static void print(struct exchange_bench *bench) {
    static const char *const names[2] = {"dispatch", "combine"};
    uint32_t rounds = (uint32_t)bench->values.rounds;
    bool json = bench->values.json;
    if (json)
        printf("{\"ranks\":%u,\"tokens\":%u,\"rounds\":%u", job_count(),
               (uint32_t)bench->values.tokens, rounds);
    else
        printf("%u ranks, %u tokens each; median of %u rounds (10%% and 90%% of them)\n",
               job_count(), (uint32_t)bench->values.tokens, rounds);
    for (uint32_t i = 0; i < 2; i++) {
        double *own = bench->seconds[DISPATCH + i], *swap = bench->seconds[SWAP_DISPATCH + i];
        double median = machine_limits_median(own, rounds); /* sorted now */
        double swap_median = machine_limits_median(swap, rounds);
        uint32_t low = rounds / 10, high = rounds - 1 - rounds / 10;
        double megabytes = (double)bench->bytes[i] * 1e-6;
        if (json)
            printf(",\n \"%s\":{\"bytes\":%.0f,\"seconds\":%.4g,\"low\":%.4g,\"high\":%.4g,"
                   "\"floor_seconds\":%.4g,\"floor_low\":%.4g,\"floor_high\":%.4g,"
                   "\"ratio\":%.3f}",
                   names[i], (double)bench->bytes[i], median, own[low], own[high], swap_median,
                   swap[low], swap[high], median / swap_median);
        else
            printf("%-8s %8.3f MB out  %8.1f us (%.1f..%.1f)  bare messages %8.1f us "
                   "(%.1f..%.1f)  ratio %.2f\n",
                   names[i], megabytes, median * 1e6, own[low] * 1e6, own[high] * 1e6,
                   swap_median * 1e6, swap[low] * 1e6, swap[high] * 1e6, median / swap_median);
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
    if (rank_job_begin_alike(&bench_exchange_options, &bench.values.job, &exit_code))
        return exit_code;
    enum status status = open_bench(&bench, &error);
    if (status == STATUS_OK) status = measure(&bench, &error);
    if (status == STATUS_OK && job_rank() == 0) print(&bench);
    exchange_close(bench.exchange);
    placement_close(&bench.placement);
    free(bench.chosen);
    free(bench.activations);
    free(bench.out);
    free(bench.in);
    exit_code = status == STATUS_OK ? command_end(&bench_exchange_options)
                                    : command_failed(&bench_exchange_options, status, &error);
    job_end();
    return exit_code;
}
