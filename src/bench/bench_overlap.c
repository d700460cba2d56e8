/* SPDX-License-Identifier: Apache-2.0
 * fathom bench overlap: how much the overlap schedules hide, on ranks with a link that is slowed
 * down. Each rank computes a prompt, then decodes. Every schedule runs in turn, for several rounds,
 * so that a disturbance affects all of them. Figures are medians, with the extremes. Ratios are
 * computed within a round.
 *
 *   compute   the sequential step without its waits, on a link at full speed
 *   uneven    those waits: for the slower rank of each layer, without any link delay
 *   comm      the time of a sequential step's transfers on the slow link
 *   ideal     the larger of the two: the other is hidden completely
 *   hidden    the part of comm during which no rank waited
 *   speed     sequential's time divided by its own
 *
 * With --schedule NAME that schedule is compared with sequential. --schedule auto is measured
 * again, in turn with the best schedule.
 *
 * By default the link is slowed down until comm takes --ratio of compute.
 *
 * With --echo N there is one rank of N, which receives its own messages (exchange_open_loopback).
 * Uneven times of other ranks are thus no part of the exposed time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/number.h"
#include "base/random.h"
#include "bench/bench.h"
#include "bench/harness.h"
#include "command/model_run.h"
#include "command/rank_job.h"
#include "serving/policy/choose_overlap.h"

#define RUNS_MAX 99
#define WARM_RUNS 2
#define LEARN_RUNS 3 /* runs of a schedule that the automatic choice needs */

struct overlap_values {
    struct model_run_values run;
    struct rank_job_values job;
    uint64_t prompt, prompts, runs, steps, echo;
    double ratio;
    const char *batch;
    bool json;
};

#define AT(field) .offset = offsetof(struct overlap_values, field)

static const struct option overlap_rows[] = {
    MODEL_RUN_OPTIONS,
    RANK_JOB_OPTIONS(struct overlap_values),
    {"prompt", OPTION_COUNT, "2048", "tokens of a prompt, computed in one step", AT(prompt),
     .minimum = 64, .maximum = LIMIT_STEP_TOKENS},
    {"prompts", OPTION_COUNT, "1", "prompts of each rank in that step", AT(prompts), .minimum = 1,
     .maximum = 64},
    {"batch", OPTION_TEXT, "1,2,4,8,16,32,64,128",
     "sequences of each rank that decode together: one measurement each; they begin with 128 "
     "tokens. 0: none, the prompt alone",
     AT(batch)},
    {"steps", OPTION_COUNT, "8", "decode steps in a run", AT(steps), .minimum = 1, .maximum = 64},
    {"runs", OPTION_COUNT, "7", "runs of each schedule; the result is their median", AT(runs),
     .minimum = 1, .maximum = RUNS_MAX},
    {"ratio", OPTION_NUMBER, "0.8",
     "communication time divided by computation time, to which the link is slowed down, unless "
     "--experiment link-gbps sets it",
     AT(ratio), .minimum = 0.01, .maximum = 100},
    {"echo", OPTION_COUNT, NULL,
     "run one rank of this many; its tokens return to it, so it waits for no other rank; 0: the "
     "ranks of --ranks",
     AT(echo), .maximum = LIMIT_RANKS},
    {"json", OPTION_FLAG, NULL, "print one JSON object", AT(json)},
};

const struct option_table bench_overlap_options = {
    .command = "bench overlap",
    .arguments = "",
    .description = "Measures how much of the ranks' communication each overlap schedule hides.",
    .options = overlap_rows,
    .option_count = ARRAY_COUNT(overlap_rows),
};

#define CONTEXT 128u /* of a decoding sequence at the start */

struct overlap_bench {
    struct overlap_values values;
    struct json_print out;
    struct model_run_sizes batches; /* none: the prompt alone */
    uint32_t ranks;
    struct solo *solo;
    uint32_t vocab;
    uint32_t *tokens;      /* [prompt] */
    float *logits;         /* [ranks * batches.largest][vocab] */
    struct solo_row *rows; /* [ranks * batches.largest] */
    struct rank_report *reports;
    double gbps, us;
};

/* A run of one schedule, in seconds. Transfers and waits are means over the ranks. */
struct timing {
    double seconds, transfer, waited, bytes;
};

static struct timing bench_overlap_counts_of(struct overlap_bench *bench) {
    struct timing sum = {0};
    rank_group_report(solo_group(bench->solo), bench->reports);
    for (uint32_t rank = 0; rank < bench->ranks; rank++) {
        sum.transfer += (double)bench->reports[rank].model.transfer_ns * 1e-9 / bench->ranks;
        sum.waited += (double)bench->reports[rank].model.waited_ns * 1e-9 / bench->ranks;
        sum.bytes += (double)bench->reports[rank].model.bytes_sent / bench->ranks;
    }
    return sum;
}

/* ---- the timed work: a prompt on each rank, or some steps of `batch` sequences on each ---- */

static enum status step(struct overlap_bench *bench, uint32_t row_count, struct error *error) {
    return solo_step(bench->solo, bench->rows, row_count, bench->logits, NULL, error);
}

static enum status prefill(struct overlap_bench *bench, struct error *error) {
    uint32_t row_count = bench->ranks * (uint32_t)bench->values.prompts;
    for (uint32_t i = 0; i < row_count; i++) {
        solo_reset(bench->solo, i);
        bench->rows[i] = (struct solo_row){.sequence = i,
                                           .form = TOKEN_PROMPT,
                                           .tokens = bench->tokens,
                                           .token_count = (uint32_t)bench->values.prompt,
                                           .logits_count = 1};
    }
    return step(bench, row_count, error);
}

static enum status bench_overlap_decode(struct overlap_bench *bench, uint32_t batch,
                                        struct error *error) {
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
static enum status time_run(struct overlap_bench *bench, uint32_t batch, const char *schedule,
                            struct timing *out, struct error *error) {
    struct timing before = bench_overlap_counts_of(bench);
    solo_set_schedule(bench->solo, schedule);
    double start = machine_limits_now();
    enum status status = batch ? bench_overlap_decode(bench, batch, error) : prefill(bench, error);
    if (status) return status;
    double seconds = machine_limits_now() - start;
    struct timing after = bench_overlap_counts_of(bench);
    *out = (struct timing){.seconds = seconds,
                           .transfer = after.transfer - before.transfer,
                           .waited = after.waited - before.waited,
                           .bytes = after.bytes - before.bytes};
    return STATUS_OK;
}

/* --schedule NAME compares only that one with sequential. */
static bool all_wanted(const struct overlap_bench *bench) {
    return !strcmp(bench->values.run.schedule, "auto");
}

static bool bench_overlap_is_wanted(const struct overlap_bench *bench, uint32_t batch, int kind) {
    /* For prompts this is the five-stage schedule. */
    if (kind == OVERLAP_DECODE_EARLY && !batch) return false;
    return kind == OVERLAP_SEQUENTIAL || all_wanted(bench) ||
           !strcmp(bench->values.run.schedule, overlap_name((enum overlap_kind)kind));
}

/* ---- runs ---- */

/* The times of a round's sequential steps: without waits on a link at full speed, and in total and
 * on the link once it is slow. */
struct round {
    double compute, sequential, comm;
};

struct runs {
    double seconds[RUNS_MAX], waited[RUNS_MAX];
    double hidden[RUNS_MAX], of_sequential[RUNS_MAX], of_ideal[RUNS_MAX];
    uint32_t count;
};

static double ideal_of(const struct round *round) {
    return round->compute > round->comm ? round->compute : round->comm;
}

static double bench_overlap_hidden_of(const struct round *round, double waited) {
    return round->comm > 0 ? 1 - waited / round->comm : 0;
}

static void bench_overlap_add_run(struct runs *runs, const struct round *round,
                                  const struct timing *timing) {
    uint32_t run = runs->count++;
    runs->seconds[run] = timing->seconds;
    runs->waited[run] = timing->waited;
    runs->hidden[run] = bench_overlap_hidden_of(round, timing->waited);
    runs->of_sequential[run] = round->sequential / timing->seconds;
    runs->of_ideal[run] = ideal_of(round) / timing->seconds;
}

/* The results of one batch size, or of the prompt. */
struct result {
    uint32_t batch;     /* 0: the prompt */
    struct round usual; /* medians of all rounds */
    double uneven, bytes, gbps;
    struct runs kinds[OVERLAP_KIND_COUNT];
    struct runs chosen; /* the automatic choice, in turns with the fastest of these */
    enum overlap_kind best_kind;
    struct choose_overlap_choice choice; /* the last one of the automatic choices */
    double of_best;                      /* chosen seconds / the fastest's */
};

static const struct harness_column overlap_columns[] = {
    {"batch", NULL, 0, 0, 0},
    {"schedule", "schedule", -20, 0, 0},
    {"seconds", "ms", 10, 2, 1e3},
    {"least", "least", 10, 2, 1e3},
    {"most", "most", 10, 2, 1e3},
    {"exposed_seconds", "exposed ms", 11, 2, 1e3},
    {"compute_seconds", NULL, 0, 0, 0},
    {"uneven_seconds", NULL, 0, 0, 0},
    {"comm_seconds", NULL, 0, 0, 0},
    {"hidden", "hidden %", 9, 0, 100},
    {"of_sequential", "speed", 7, 2, 0},
    {"of_ideal", "of ideal", 9, 2, 0},
    {"takes", NULL, -1, 0, 0}, /* of the automatic choice, as all that follow */
    {"reason", NULL, -1, 0, 0},
    {"best", NULL, -1, 0, 0},
    {"of_best", NULL, 0, 0, 0},
};
#define CHOICE_COLUMNS 4

static void bench_overlap_print_head(const struct overlap_bench *bench,
                                     const struct result *result) {
    static const struct harness_table table = {overlap_columns, ARRAY_COUNT(overlap_columns)};
    const struct json_print *out = &bench->out;
    if (result->batch)
        json_print_say(out, "decode, %u sequences a rank, %llu steps", result->batch,
                       (unsigned long long)bench->values.steps);
    else
        json_print_say(out, "prefill, %llu prompts of %llu tokens a rank",
                       (unsigned long long)bench->values.prompts,
                       (unsigned long long)bench->values.prompt);
    json_print_say(
        out, ": compute %.2f ms, uneven %.2f ms, comm %.2f ms at %.3g Gbit/s, ideal %.2f ms\n",
        result->usual.compute * 1e3, result->uneven * 1e3, result->usual.comm * 1e3, result->gbps,
        ideal_of(&result->usual) * 1e3);
    harness_titles(out, &table);
}

static void print_schedule(struct overlap_bench *bench, const struct result *result,
                           const char *name, struct runs *runs) {
    bool chosen = runs == &result->chosen;
    const struct harness_table table = {overlap_columns, ARRAY_COUNT(overlap_columns) -
                                                             (chosen ? 0 : CHOICE_COLUMNS)};
    struct stats_spread seconds = stats_spread(runs->seconds, runs->count, 0);
    const char *takes = overlap_name(result->choice.kind), *best = overlap_name(result->best_kind);
    const char *reason = choose_overlap_reason_name(result->choice.reason);
    const char *const texts[] = {name, takes, reason, best};
    const double numbers[] = {result->batch,
                              seconds.median,
                              seconds.low,
                              seconds.high,
                              stats_median(runs->waited, runs->count),
                              result->usual.compute,
                              result->uneven,
                              result->usual.comm,
                              stats_median(runs->hidden, runs->count),
                              stats_median(runs->of_sequential, runs->count),
                              stats_median(runs->of_ideal, runs->count),
                              result->of_best};
    harness_row(&bench->out, NULL, &table, texts, numbers);
    if (chosen)
        json_print_say(&bench->out, "auto takes %s (%s), the best is %s: %.2f of its time\n", takes,
                       reason, best, result->of_best);
}

/* A sequential run on a link at full speed. */
static enum status run_fast(struct overlap_bench *bench, const struct result *result,
                            struct timing *out, struct error *error) {
    rank_group_set_link(solo_group(bench->solo), 0, 0);
    solo_set_measured(bench->solo, false);
    enum status status =
        time_run(bench, result->batch, overlap_name(OVERLAP_SEQUENTIAL), out, error);
    solo_set_measured(bench->solo, true);
    return status;
}

/* Sets the link's speed. */
static enum status choose_link(struct overlap_bench *bench, struct result *result,
                               struct error *error) {
    double seconds[RUNS_MAX];
    struct timing timing = {0};
    enum status status = STATUS_OK;
    for (uint32_t run = 0; !status && run < bench->values.runs + WARM_RUNS; run++) {
        status = run_fast(bench, result, &timing, error);
        if (run >= WARM_RUNS) seconds[run - WARM_RUNS] = timing.seconds - timing.waited;
    }
    if (status) return status;
    result->bytes = timing.bytes;
    result->gbps = result->bytes * 8e-9 /
                   (stats_median(seconds, (uint32_t)bench->values.runs) * bench->values.ratio);
    if (bench->gbps) result->gbps = bench->gbps;
    return STATUS_OK;
}

/* Sequential on a fast link, then every schedule on the slow one. The automatic choice records
 * their times, too. */
static enum status bench_overlap_run_round(struct overlap_bench *bench, struct result *result,
                                           struct round *round, double *uneven_out,
                                           struct error *error) {
    struct timing timing;
    enum status status = run_fast(bench, result, &timing, error);
    if (status) return status;
    *round = (struct round){.compute = timing.seconds - timing.waited};
    *uneven_out = timing.waited;
    rank_group_set_link(solo_group(bench->solo), result->gbps, bench->us);
    for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++) {
        if (!bench_overlap_is_wanted(bench, result->batch, kind)) continue;
        status =
            time_run(bench, result->batch, overlap_name((enum overlap_kind)kind), &timing, error);
        if (status) return status;
        if (kind == OVERLAP_SEQUENTIAL) {
            round->sequential = timing.seconds;
            round->comm = timing.transfer;
        }
        bench_overlap_add_run(&result->kinds[kind], round, &timing);
    }
    return STATUS_OK;
}

static enum status measure_kinds(struct overlap_bench *bench, struct result *result,
                                 struct error *error) {
    double compute[RUNS_MAX], uneven[RUNS_MAX], sequential[RUNS_MAX], comm[RUNS_MAX];
    uint32_t runs = (uint32_t)bench->values.runs;
    solo_forget_measured(bench->solo);
    for (uint32_t run = 0; run < runs; run++) {
        struct round round;
        enum status status = bench_overlap_run_round(bench, result, &round, &uneven[run], error);
        if (status) return status;
        compute[run] = round.compute;
        sequential[run] = round.sequential;
        comm[run] = round.comm;
    }
    result->usual = (struct round){.compute = stats_median(compute, runs),
                                   .sequential = stats_median(sequential, runs),
                                   .comm = stats_median(comm, runs)};
    result->uneven = stats_median(uneven, runs);
    for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++)
        if (bench_overlap_is_wanted(bench, result->batch, kind) &&
            stats_median(result->kinds[kind].of_sequential, runs) >
                stats_median(result->kinds[result->best_kind].of_sequential, runs))
            result->best_kind = (enum overlap_kind)kind;
    return STATUS_OK;
}

/* Measures the automatic choice and the best schedule in turns, so that a disturbance affects
 * both. */
static enum status measure_choice(struct overlap_bench *bench, struct result *result,
                                  struct error *error) {
    enum status status = STATUS_OK;
    double of_best[RUNS_MAX];
    uint32_t learning = bench->values.runs < LEARN_RUNS ? LEARN_RUNS : 0;
    for (uint32_t run = 0; !status && run < bench->values.runs + learning; run++) {
        struct timing best, chosen;
        status = time_run(bench, result->batch, overlap_name(result->best_kind), &best, error);
        if (!status) status = time_run(bench, result->batch, "auto", &chosen, error);
        if (status || run < learning) continue;
        of_best[result->chosen.count] = chosen.seconds / best.seconds;
        bench_overlap_add_run(&result->chosen, &result->usual, &chosen);
        result->choice = solo_schedule(bench->solo);
    }
    if (status) return status;
    result->of_best = stats_median(of_best, result->chosen.count);
    return STATUS_OK;
}

static enum status compare(struct overlap_bench *bench, uint32_t batch, struct error *error) {
    static struct result result;
    result = (struct result){.batch = batch};
    enum status status = choose_link(bench, &result, error);
    if (!status) status = measure_kinds(bench, &result, error);
    if (!status && all_wanted(bench)) status = measure_choice(bench, &result, error);
    if (status) return status;
    bench_overlap_print_head(bench, &result);
    for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++)
        if (bench_overlap_is_wanted(bench, batch, kind))
            print_schedule(bench, &result, overlap_name((enum overlap_kind)kind),
                           &result.kinds[kind]);
    if (all_wanted(bench)) print_schedule(bench, &result, "auto", &result.chosen);
    return STATUS_OK;
}

static void print_end(struct overlap_bench *bench) {
    json_print_close(&bench->out);
    rank_job_print_json(&bench->values.job, solo_group(bench->solo), &bench->out);
    json_print_close(&bench->out);
}

static enum status fill_contexts(struct overlap_bench *bench, struct error *error) {
    enum status status = STATUS_OK;
    for (uint32_t i = 0; !status && i < bench->ranks * bench->batches.largest; i++) {
        solo_reset(bench->solo, i);
        status = solo_prefill(bench->solo, i, bench->tokens, CONTEXT, 0, bench->logits, error);
    }
    return status;
}

static enum status read_batches(struct overlap_bench *bench, struct error *error) {
    struct model_run_sizes *batches = &bench->batches;
    *batches = (struct model_run_sizes){.count = 0, .largest = 1};
    if (!strcmp(bench->values.batch, "0")) return STATUS_OK;
    return model_run_sizes_read("--batch", bench->values.batch, batches, error);
}

static enum status bench_overlap_open_bench(struct overlap_bench *bench, struct error *error) {
    struct solo_options options;
    enum status status = read_batches(bench, error);
    if (!status)
        status = rank_job_solo_options(&bench->values.run, &bench->values.job, &options, error);
    if (status) return status;
    options.schedule = "sequential";
    if (bench->values.echo) {
        options.model.echoes = true;
        options.model.rank_count = (uint32_t)bench->values.echo;
    }
    bench->ranks = (uint32_t)bench->values.job.ranks;
    bench->gbps = bench->values.job.link_gbps;
    bench->us = bench->values.job.link_us;
    uint32_t prompt = (uint32_t)bench->values.prompt;
    uint32_t tokens = prompt * (uint32_t)bench->values.prompts;
    options.sequences =
        bench->ranks * max_u32(bench->batches.largest, (uint32_t)bench->values.prompts);
    options.context_max = prompt > 2 * CONTEXT ? prompt : 2 * CONTEXT;
    options.model.step_tokens_max = max_u32(tokens, bench->batches.largest);
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

int bench_overlap(void *given, const struct option_result *result) {
    struct overlap_bench bench = {.values = *(const struct overlap_values *)given};
    const struct rank_job_values *job = &bench.values.job;
    struct error error = {.text = ""};
    int exit_code;
    if (!bench.values.echo != (job->ranks > 1))
        return command_misused("one rank sends nothing: give --ranks 2 or --echo 32, not both");
    if (!bench.values.echo && rank_job_begin(RANK_JOB_DRIVEN, job, &exit_code)) return exit_code;
    enum status status = bench_overlap_open_bench(&bench, &error);
    bench.out = json_print_begin(bench.values.json);
    if (!status) json_print_open(&bench.out, "runs", '[');
    if (!status) status = compare(&bench, 0, &error);
    if (!status && bench.batches.count) status = fill_contexts(&bench, &error);
    for (uint32_t i = 0; !status && i < bench.batches.count; i++)
        status = compare(&bench, bench.batches.values[i], &error);
    if (!status) status = rank_job_write_trace(&bench.values.job, solo_group(bench.solo), &error);
    if (!status) print_end(&bench);
    solo_close(bench.solo);
    free(bench.tokens);
    free(bench.logits);
    free(bench.rows);
    free(bench.reports);
    return command_end(status, &error);
}
