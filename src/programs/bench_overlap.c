/* SPDX-License-Identifier: Apache-2.0
 * fathom bench overlap: what the overlap schedules hide, on ranks with a link that was slowed down.
 * Each rank computes a prompt, then decodes; every schedule in turn, several times over, so that a
 * disturbance meets them all; medians, with the extremes beside.
 *
 *   compute   the sequential step without its waits, on a link as fast as it goes
 *   comm      what the transfers of a sequential step take on the slow link
 *   ideal     the larger of the two: all of the other hidden
 *   hidden    of the comm: what no rank waited for
 *
 * Unless told, the link is made so slow that comm takes as long as compute, where a schedule is
 * worth most.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/random.h"
#include "programs/bench.h"
#include "programs/machine_limits.h"
#include "programs/model_run.h"
#include "programs/rank_job.h"

#define BATCHES_MAX 16
#define RUNS_MAX 99
#define WARM_RUNS 2

struct overlap_values {
    struct model_run_values run;
    struct rank_job_values job;
    uint64_t prompt, runs, steps;
    const char *batch;
    bool json;
};

#define AT(field) .offset = offsetof(struct overlap_values, field)

static const struct option overlap_rows[] = {
    MODEL_RUN_OPTIONS,
    RANK_JOB_OPTIONS(struct overlap_values),
    {.name = "prompt",
     .type = OPTION_COUNT,
     .fallback = "2048",
     .help = "tokens of each rank's prompt, computed in one step",
     .minimum = 64,
     .maximum = LIMIT_STEP_TOKENS,
     AT(prompt)},
    {.name = "batch",
     .type = OPTION_TEXT,
     .fallback = "1,2,4,8,16,32,64,128",
     .help = "sequences of each rank that decode together: one measurement each; they begin with "
             "128 tokens",
     AT(batch)},
    {.name = "steps",
     .type = OPTION_COUNT,
     .fallback = "8",
     .help = "decode steps in a run",
     .minimum = 1,
     .maximum = 64,
     AT(steps)},
    {.name = "runs",
     .type = OPTION_COUNT,
     .fallback = "7",
     .help = "runs of each schedule, of which the median counts",
     .minimum = 1,
     .maximum = RUNS_MAX,
     AT(runs)},
    {.name = "json", .type = OPTION_FLAG, .help = "print one JSON object", AT(json)},
};

const struct option_table bench_overlap_options = {
    .command = "bench overlap",
    .arguments = "",
    .description = "What the overlap schedules hide of the ranks' communication.",
    .options = overlap_rows,
    .option_count = ARRAY_COUNT(overlap_rows),
};

#define CONTEXT 128u /* of a decoding sequence at first */

struct bench {
    struct overlap_values values;
    uint32_t *batches, batch_count, batch_max, ranks;
    struct solo *solo;
    uint32_t vocab;
    uint32_t *tokens;      /* [prompt] */
    float *logits;         /* [ranks * batch_max][vocab] */
    struct solo_row *rows; /* [ranks * batch_max] */
    struct rank_report *reports;
    double gbps, us;
    uint32_t printed;
};

/* A run of one schedule; seconds. Transfers and waits are means over the ranks. */
struct timing {
    double seconds, transfer, waited, bytes;
};

struct spread {
    double median, least, most;
};

static struct timing counts_of(struct bench *bench) {
    struct timing sum = {0};
    rank_group_report(solo_group(bench->solo), bench->reports);
    for (uint32_t rank = 0; rank < bench->ranks; rank++) {
        sum.transfer += (double)bench->reports[rank].model.transfer_ns * 1e-9 / bench->ranks;
        sum.waited += (double)bench->reports[rank].model.waited_ns * 1e-9 / bench->ranks;
        sum.bytes += (double)bench->reports[rank].model.bytes_sent / bench->ranks;
    }
    return sum;
}

/* ---- what is timed: a prompt on each rank, or some steps of `batch` sequences on each ----------
 */

static enum status step(struct bench *bench, uint32_t row_count, struct error *error) {
    return solo_step(bench->solo, bench->rows, row_count, bench->logits, NULL, error);
}

static enum status prefill(struct bench *bench, struct error *error) {
    for (uint32_t i = 0; i < bench->ranks; i++) {
        solo_reset(bench->solo, i);
        bench->rows[i] = (struct solo_row){.sequence = i,
                                           .form = TOKEN_PROMPT,
                                           .tokens = bench->tokens,
                                           .token_count = (uint32_t)bench->values.prompt,
                                           .logits_count = 1};
    }
    return step(bench, bench->ranks, error);
}

static enum status decode(struct bench *bench, uint32_t batch, struct error *error) {
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < batch * bench->ranks; i++) {
        solo_truncate(bench->solo, i, CONTEXT);
        bench->rows[i] = (struct solo_row){
            .sequence = i, .form = TOKEN_GENERATED, .token_count = 1, .logits_count = 1};
    }
    for (uint32_t k = 0; !status && k < bench->values.steps; k++) {
        for (uint32_t i = 0; i < batch * bench->ranks; i++)
            bench->rows[i].tokens = bench->tokens + (i + 7 * k) % bench->values.prompt;
        status = step(bench, batch * bench->ranks, error);
    }
    return status;
}

/* batch 0: prefill. */
static enum status time_run(struct bench *bench, uint32_t batch, enum overlap_kind kind,
                            struct timing *out, struct error *error) {
    struct timing before = counts_of(bench);
    solo_set_schedule(bench->solo, overlap_name(kind));
    double start = machine_limits_now();
    enum status status = batch ? decode(bench, batch, error) : prefill(bench, error);
    if (status) return status;
    double seconds = machine_limits_now() - start;
    struct timing after = counts_of(bench);
    *out = (struct timing){seconds, after.transfer - before.transfer, after.waited - before.waited,
                           after.bytes - before.bytes};
    return STATUS_OK;
}

static struct spread spread_of(double *values, uint32_t count) {
    double median = machine_limits_median(values, count); /* sorts */
    return (struct spread){median, values[0], values[count - 1]};
}

/* ---- runs ---------------------------------------------------------------------------------- */

struct runs {
    double seconds[RUNS_MAX], transfer[RUNS_MAX], waited[RUNS_MAX];
};

static void print_schedule(struct bench *bench, uint32_t batch, enum overlap_kind kind,
                           struct runs *runs, double sequential, double compute, double comm) {
    uint32_t count = (uint32_t)bench->values.runs;
    struct spread seconds = spread_of(runs[kind].seconds, count);
    double waited = spread_of(runs[kind].waited, count).median;
    double ideal = compute > comm ? compute : comm;
    double hidden = comm > 0 ? 1 - waited / comm : 0;
    if (bench->values.json) {
        printf("%s\n  {\"batch\":%u,\"schedule\":\"%s\",\"seconds\":%.6g,\"least\":%.6g,"
               "\"most\":%.6g,\"exposed_seconds\":%.6g,\"compute_seconds\":%.6g,"
               "\"comm_seconds\":%.6g,\"hidden\":%.3f,\"of_sequential\":%.3f,\"of_ideal\":%.3f}",
               bench->printed++ ? "," : "", batch, overlap_name(kind), seconds.median,
               seconds.least, seconds.most, waited, compute, comm, hidden,
               sequential / seconds.median, ideal / seconds.median);
        return;
    }
    printf("  %-20s %9.2f (%.2f-%.2f) %10.2f %7.0f%% %9.2f x %8.2f\n", overlap_name(kind),
           seconds.median * 1e3, seconds.least * 1e3, seconds.most * 1e3, waited * 1e3,
           hidden * 100, sequential / seconds.median, ideal / seconds.median);
}

/* Seconds in which the ranks compute, and the bytes of one run, on a link as fast as it goes. */
static enum status measure_compute(struct bench *bench, uint32_t batch, double *compute_out,
                                   double *bytes_out, struct error *error) {
    double seconds[RUNS_MAX];
    struct timing timing = {0};
    enum status status = STATUS_OK;
    rank_group_set_link(solo_group(bench->solo), 0, 0);
    for (uint32_t run = 0; !status && run < bench->values.runs + WARM_RUNS; run++) {
        status = time_run(bench, batch, OVERLAP_SEQUENTIAL, &timing, error);
        if (run >= WARM_RUNS) seconds[run - WARM_RUNS] = timing.seconds - timing.waited;
    }
    if (status) return status;
    *compute_out = machine_limits_median(seconds, (uint32_t)bench->values.runs);
    *bytes_out = timing.bytes;
    return STATUS_OK;
}

static enum status compare(struct bench *bench, uint32_t batch, struct error *error) {
    static struct runs runs[OVERLAP_KIND_COUNT];
    double compute, bytes;
    enum status status = measure_compute(bench, batch, &compute, &bytes, error);
    if (status) return status;
    if (bench->gbps == 0) bench->gbps = bytes * 8e-9 / compute;
    rank_group_set_link(solo_group(bench->solo), bench->gbps, bench->us);
    for (uint32_t run = 0; run < bench->values.runs; run++)
        for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++) {
            struct timing timing;
            status = time_run(bench, batch, (enum overlap_kind)kind, &timing, error);
            if (status) return status;
            runs[kind].seconds[run] = timing.seconds;
            runs[kind].transfer[run] = timing.transfer;
            runs[kind].waited[run] = timing.waited;
        }
    uint32_t count = (uint32_t)bench->values.runs;
    double sequential = spread_of(runs[OVERLAP_SEQUENTIAL].seconds, count).median;
    double comm = spread_of(runs[OVERLAP_SEQUENTIAL].transfer, count).median;
    if (!bench->values.json) {
        if (batch)
            printf("decode, %u sequences a rank, %llu steps", batch,
                   (unsigned long long)bench->values.steps);
        else
            printf("prefill, %llu tokens a rank", (unsigned long long)bench->values.prompt);
        printf(": compute %.2f ms, comm %.2f ms at %.3g Gbit/s\n"
               "  %-20s %25s %12s %6s %11s %8s\n",
               compute * 1e3, comm * 1e3, bench->gbps, "schedule", "ms (least-most)", "exposed ms",
               "hidden", "speed", "of ideal");
    }
    for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++)
        print_schedule(bench, batch, (enum overlap_kind)kind, runs, sequential, compute, comm);
    return STATUS_OK;
}

static enum status fill_contexts(struct bench *bench, struct error *error) {
    enum status status = STATUS_OK;
    for (uint32_t i = 0; !status && i < bench->ranks * bench->batch_max; i++) {
        solo_reset(bench->solo, i);
        status = solo_prefill(bench->solo, i, bench->tokens, CONTEXT, 0, bench->logits, error);
    }
    return status;
}

static enum status open_bench(struct bench *bench, struct error *error) {
    struct solo_options options = {.schedule = "sequential"};
    enum status status =
        model_run_tokens(bench->values.batch, &bench->batches, &bench->batch_count, error);
    if (!status) status = model_run_options(&bench->values.run, &options.model, error);
    if (!status) status = rank_job_options(&bench->values.job, &options.model, error);
    options.rebalance = rank_job_rebalance(&bench->values.job);
    if (status) return status;
    if (bench->batch_count > BATCHES_MAX)
        return error_set(error, STATUS_INVALID, "--batch: at most %d numbers", BATCHES_MAX);
    bench->batch_max = 1;
    for (uint32_t i = 0; i < bench->batch_count; i++) {
        if (bench->batches[i] == 0 || bench->batches[i] > LIMIT_STEP_ROWS)
            return error_set(error, STATUS_INVALID, "--batch: %u is not in 1..%d",
                             bench->batches[i], LIMIT_STEP_ROWS);
        if (bench->batches[i] > bench->batch_max) bench->batch_max = bench->batches[i];
    }
    bench->ranks = (uint32_t)bench->values.job.ranks;
    bench->gbps = bench->values.job.link_gbps;
    bench->us = bench->values.job.link_us;
    uint32_t prompt = (uint32_t)bench->values.prompt;
    options.sequences = bench->ranks * bench->batch_max;
    options.context_max = prompt > 2 * CONTEXT ? prompt : 2 * CONTEXT;
    options.model.step_tokens_max = prompt > bench->batch_max ? prompt : bench->batch_max;
    status = model_run_open(&options, &bench->solo, error);
    if (status) return status;
    bench->vocab = model_shape(solo_model(bench->solo))->vocab;
    bench->tokens = malloc((prompt > CONTEXT ? prompt : CONTEXT) * sizeof *bench->tokens);
    bench->logits = malloc((size_t)options.sequences * bench->vocab * sizeof *bench->logits);
    bench->rows = calloc(options.sequences, sizeof *bench->rows);
    bench->reports = calloc(bench->ranks, sizeof *bench->reports);
    if (!bench->tokens || !bench->logits || !bench->rows || !bench->reports)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the tokens");
    for (uint32_t i = 0; i < prompt || i < CONTEXT; i++)
        bench->tokens[i] = (uint32_t)(random_uniform(1, 0, i) * bench->vocab);
    return STATUS_OK;
}

int bench_overlap(int argc, char **argv) {
    struct bench bench = {.batch_count = 0};
    struct option_result result;
    struct error error = {.text = ""};
    int exit_code;
    if (!command_begin(&bench_overlap_options, argc, argv, &bench.values, &result, &exit_code))
        return exit_code;
    if (bench.values.job.ranks < 2)
        return command_misused(&bench_overlap_options, "one rank sends nothing: give --ranks 2");
    if (rank_job_begin(&bench_overlap_options, &bench.values.job, &exit_code)) return exit_code;
    enum status status = open_bench(&bench, &error);
    if (!status && bench.values.json) printf("{\"runs\":[");
    if (!status) status = compare(&bench, 0, &error);
    if (!status) status = fill_contexts(&bench, &error);
    for (uint32_t i = 0; !status && i < bench.batch_count; i++)
        status = compare(&bench, bench.batches[i], &error);
    if (!status) status = rank_job_write_trace(&bench.values.job, solo_group(bench.solo), &error);
    if (!status && bench.values.json) {
        printf("]");
        rank_job_print_json(&bench.values.job, solo_group(bench.solo));
        printf("}\n");
    }
    solo_close(bench.solo);
    free(bench.batches);
    free(bench.tokens);
    free(bench.logits);
    free(bench.rows);
    free(bench.reports);
    return status ? command_failed(&bench_overlap_options, status, &error)
                  : command_end(&bench_overlap_options);
}
