/* SPDX-License-Identifier: Apache-2.0
 * fathom bench overlap: how much the overlap schedules hide, on ranks with a link that is slowed
 * down. Each rank computes a prompt, then decodes. Every schedule runs in turn, for several rounds,
 * so that a disturbance affects all of them. Figures are medians, with the extremes. Ratios are
 * computed within a round.
 *
 *   compute   the sequential step without its waits, on a link at full speed
 *   uneven    those waits: for the slower rank of each layer, without any link delay
 *   comm      the time of a sequential step's transfers on the slow link
 *   ideal     the larger of the two: all of the other hidden
 *   hidden    the part of comm that no rank waited for
 *   speed     sequential's time divided by its own
 *   walked    the schedule's table walked in virtual time with the stage times of the sequential
 *             steps (simulate/hardware/overlap_schedule.h), and the best walk of two lanes that exists
 *
 * With --schedule NAME that schedule is compared with sequential. The choice of --schedule auto is
 * measured in turns with the best schedule once more.
 *
 * By default the link is made so slow that comm takes --ratio of compute.
 *
 * With --echo N there is one rank of N: what it sends is returned to it (exchange_open_echo), so no
 * other rank's uneven times are part of the exposed time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/number.h"
#include "base/random.h"
#include "bench/bench.h"
#include "bench/machine_limits.h"
#include "bench/overlap_expected.h"
#include "command/model_run.h"
#include "command/rank_job.h"
#include "serving/policy/choose_overlap.h"

#define RUNS_MAX 99
#define WARM_RUNS 2
#define LEARN_RUNS 3   /* runs of a schedule that the automatic choice needs */
#define NEAR_BEST 1.02 /* of the best schedule's time */

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
    {"runs", OPTION_COUNT, "7", "runs of each schedule, of which the median counts", AT(runs),
     .minimum = 1, .maximum = RUNS_MAX},
    {"ratio", OPTION_NUMBER, "0.8",
     "communication by computation: how slow the link is made, unless --experiment link-gbps sets "
     "it",
     AT(ratio), .minimum = 0.01, .maximum = 100},
    {"echo", OPTION_COUNT, NULL,
     "one rank of so many, which gets its own tokens back and so waits for no other rank; 0: the "
     "ranks of --ranks",
     AT(echo), .maximum = LIMIT_RANKS},
    {"json", OPTION_FLAG, NULL, "print one JSON object", AT(json)},
};

const struct option_table bench_overlap_options = {
    .command = "bench overlap",
    .arguments = "",
    .description = "What the overlap schedules hide of the ranks' communication.",
    .options = overlap_rows,
    .option_count = ARRAY_COUNT(overlap_rows),
};

#define CONTEXT 128u /* of a decoding sequence at the start */

/* Times the stages of rank 0, and forwards them to the trace, if there is one. */
struct stage_watch {
    struct model_trace hook;
    const struct model_trace *next; /* or NULL */
    uint32_t dense_layers;
    double began, part_began;
    double seconds[2][STAGE_COUNT]; /* without waits: of dense layers, of those with experts */
    double core;                    /* part of them: answers' core attention */
};

struct overlap_bench {
    struct overlap_values values;
    struct stage_watch watch;
    struct model_run_sizes batches; /* none: the prompt alone */
    uint32_t ranks;
    struct solo *solo;
    uint32_t vocab;
    uint32_t *tokens;      /* [prompt] */
    float *logits;         /* [ranks * batches.largest][vocab] */
    struct solo_row *rows; /* [ranks * batches.largest] */
    struct rank_report *reports;
    double gbps, us;
    uint32_t printed;
    uint32_t measured, near_best; /* batch sizes; those where auto is as good as the best */
    uint32_t five_stage, any; /* the batch from which on it is faster than sequential; 0: none */
};

/* Batches are in ascending order. */
static void note_faster(uint32_t *from, uint32_t batch, bool faster) {
    if (!faster)
        *from = 0;
    else if (*from == 0)
        *from = batch;
}

static void watch_begin(void *context) {
    struct stage_watch *watch = context;
    if (watch->next) watch->next->begin(watch->next->context);
    watch->began = watch->part_began = machine_limits_now();
}

static void watch_part(void *context, enum stage_part part) {
    struct stage_watch *watch = context;
    const double now = machine_limits_now();
    if (part == PART_ABSORB_QUERY || part == PART_CORE || part == PART_ABSORB_VALUE)
        watch->core += now - watch->part_began;
    watch->part_began = now;
}

static void watch_end(void *context, enum stage stage, uint32_t micro_batch, uint32_t layer,
                      const struct exchange_transfer *ended) {
    struct stage_watch *watch = context;
    watch->seconds[layer >= watch->dense_layers][stage] +=
        machine_limits_now() - watch->began - (ended ? (double)ended->waited_ns * 1e-9 : 0);
    if (watch->next) watch->next->end(watch->next->context, stage, micro_batch, layer, ended);
}

static void watch_stages(struct overlap_bench *bench, const struct model_trace *next) {
    struct stage_watch *watch = &bench->watch;
    const struct shape *shape = model_shape(solo_model(bench->solo));
    *watch = (struct stage_watch){
        .hook = {.context = watch, .begin = watch_begin, .end = watch_end, .part = watch_part},
        .next = next};
    for (uint32_t layer = 0; layer < shape->layers; layer++)
        watch->dense_layers += !shape_layer_is_moe(shape, layer);
    model_set_trace(solo_model(bench->solo), &watch->hook);
}

/* A run of one schedule, in seconds. Transfers and waits are means over the ranks. */
struct timing {
    double seconds, transfer, dispatch, waited, bytes;
};

struct spread {
    double median, least, most;
};

static struct timing bench_overlap_counts_of(struct overlap_bench *bench) {
    struct timing sum = {0};
    rank_group_report(solo_group(bench->solo), bench->reports);
    for (uint32_t rank = 0; rank < bench->ranks; rank++) {
        sum.dispatch += (double)bench->reports[rank].model.dispatch_ns * 1e-9 / bench->ranks;
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
    memset(bench->watch.seconds, 0, sizeof bench->watch.seconds);
    bench->watch.core = 0;
    solo_set_schedule(bench->solo, schedule);
    double start = machine_limits_now();
    enum status status = batch ? bench_overlap_decode(bench, batch, error) : prefill(bench, error);
    if (status) return status;
    double seconds = machine_limits_now() - start;
    struct timing after = bench_overlap_counts_of(bench);
    *out = (struct timing){.seconds = seconds,
                           .transfer = after.transfer - before.transfer,
                           .dispatch = after.dispatch - before.dispatch,
                           .waited = after.waited - before.waited,
                           .bytes = after.bytes - before.bytes};
    return STATUS_OK;
}

static struct spread spread_of(double *values, uint32_t count) {
    double median = machine_limits_median(values, count); /* sorts */
    return (struct spread){median, values[0], values[count - 1]};
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

static double bench_overlap_median_of(double *values, uint32_t count) {
    return spread_of(values, count).median;
}

/* The results of one batch size, or of the prompt. */
struct result {
    uint32_t batch;     /* 0: the prompt */
    struct round usual; /* medians of all rounds */
    double uneven, bytes, gbps;
    double dispatch[RUNS_MAX];         /* of sequential runs */
    struct overlap_step_times stepped; /* the stages are sums over all runs */
    struct runs kinds[OVERLAP_KIND_COUNT];
    struct runs chosen; /* the automatic choice, in turns with the fastest of these */
    enum overlap_kind best_kind;
    struct choose_overlap_choice choice; /* the last one of the automatic choices */
    double of_best;                      /* chosen seconds / the fastest's */
};

static void bench_overlap_print_head(const struct overlap_bench *bench,
                                     const struct result *result) {
    if (bench->values.json) return;
    if (result->batch)
        printf("decode, %u sequences a rank, %llu steps", result->batch,
               (unsigned long long)bench->values.steps);
    else
        printf("prefill, %llu prompts of %llu tokens a rank",
               (unsigned long long)bench->values.prompts, (unsigned long long)bench->values.prompt);
    printf(": compute %.2f ms, uneven %.2f ms, comm %.2f ms at %.3g Gbit/s, ideal %.2f ms\n"
           "  %-20s %25s %12s %7s %10s %9s   walked: ms, hidden, of ideal\n",
           result->usual.compute * 1e3, result->uneven * 1e3, result->usual.comm * 1e3,
           result->gbps, ideal_of(&result->usual) * 1e3, "schedule", "ms (least-most)",
           "exposed ms", "hidden", "speed", "of ideal");
}

static void print_walked(const struct result *result, const struct overlap_expected *walked) {
    printf(" %11.2f %6.0f%% %8.2f", walked->seconds * 1e3,
           bench_overlap_hidden_of(&result->usual, walked->waited) * 100,
           ideal_of(&result->usual) / walked->seconds);
}

static void print_walked_json(const struct result *result, const struct overlap_expected *walked) {
    printf(",\"walked\":{\"seconds\":%.6g,\"hidden\":%.3f,\"of_ideal\":%.3f}", walked->seconds,
           bench_overlap_hidden_of(&result->usual, walked->waited),
           ideal_of(&result->usual) / walked->seconds);
}

static void print_schedule(struct overlap_bench *bench, const struct result *result,
                           const char *name, struct runs *runs,
                           const struct overlap_expected *walked) {
    struct spread seconds = spread_of(runs->seconds, runs->count);
    double waited = bench_overlap_median_of(runs->waited, runs->count);
    double hidden = bench_overlap_median_of(runs->hidden, runs->count);
    double speed = bench_overlap_median_of(runs->of_sequential, runs->count);
    double of_ideal = bench_overlap_median_of(runs->of_ideal, runs->count);
    if (bench->values.json) {
        printf("%s\n  {\"batch\":%u,\"schedule\":\"%s\",\"seconds\":%.6g,\"least\":%.6g,"
               "\"most\":%.6g,\"exposed_seconds\":%.6g,\"compute_seconds\":%.6g,"
               "\"uneven_seconds\":%.6g,\"comm_seconds\":%.6g,\"hidden\":%.3f,\"of_sequential\":%."
               "3f,\"of_ideal\":%.3f",
               bench->printed++ ? "," : "", result->batch, name, seconds.median, seconds.least,
               seconds.most, waited, result->usual.compute, result->uneven, result->usual.comm,
               hidden, speed, of_ideal);
        if (walked) print_walked_json(result, walked);
        if (runs == &result->chosen)
            printf(",\"takes\":\"%s\",\"reason\":\"%s\",\"best\":\"%s\",\"of_best\":%.3f",
                   overlap_name(result->choice.kind),
                   choose_overlap_reason_name(result->choice.reason),
                   overlap_name(result->best_kind), result->of_best);
        printf("}");
        return;
    }
    printf("  %-20s %9.2f (%.2f-%.2f) %10.2f %7.0f%% %8.2f x %8.2f", name, seconds.median * 1e3,
           seconds.least * 1e3, seconds.most * 1e3, waited * 1e3, hidden * 100, speed, of_ideal);
    if (walked) print_walked(result, walked);
    printf("\n");
    if (runs == &result->chosen)
        printf("  auto takes %s (%s), the best is %s: %.2f of its time\n",
               overlap_name(result->choice.kind), choose_overlap_reason_name(result->choice.reason),
               overlap_name(result->best_kind), result->of_best);
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
    result->gbps =
        result->bytes * 8e-9 /
        (bench_overlap_median_of(seconds, (uint32_t)bench->values.runs) * bench->values.ratio);
    if (bench->gbps) result->gbps = bench->gbps;
    return STATUS_OK;
}

static void add_stages(const struct overlap_bench *bench, struct result *result, uint32_t run,
                       const struct timing *timing) {
    double *in_layers = &result->stepped.in_layers, computed = timing->seconds - timing->waited;
    result->stepped.core += bench->watch.core;
    result->dispatch[run] = timing->dispatch;
    for (int i = 0; i < 2 * STAGE_COUNT; i++) {
        double seconds = bench->watch.seconds[i / STAGE_COUNT][i % STAGE_COUNT];
        result->stepped.stages[i / STAGE_COUNT][i % STAGE_COUNT] += seconds;
        *in_layers += seconds / computed;
    }
}

/* The times of a sequential step: the medians of its runs. */
static void bench_overlap_note_step(struct overlap_bench *bench, struct result *result,
                                    uint32_t runs) {
    struct overlap_step_times *times = &result->stepped;
    times->steps = result->batch ? (uint32_t)bench->values.steps : 1;
    times->layers = model_shape(solo_model(bench->solo))->layers;
    times->dense_layers = bench->watch.dense_layers;
    times->compute = result->usual.compute;
    times->comm = result->usual.comm;
    times->dispatch = bench_overlap_median_of(result->dispatch, runs);
    times->in_layers /= runs;
    if (times->in_layers > 1) times->in_layers = 1; /* one rank's stages over the wait of all */
}

/* Sequential on a fast link, then every schedule on the slow one. The automatic choice records
 * their times, too. */
static enum status bench_overlap_run_round(struct overlap_bench *bench, struct result *result,
                                           uint32_t run, struct round *round, double *uneven_out,
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
            add_stages(bench, result, run, &timing);
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
        enum status status =
            bench_overlap_run_round(bench, result, run, &round, &uneven[run], error);
        if (status) return status;
        compute[run] = round.compute;
        sequential[run] = round.sequential;
        comm[run] = round.comm;
    }
    result->usual = (struct round){.compute = bench_overlap_median_of(compute, runs),
                                   .sequential = bench_overlap_median_of(sequential, runs),
                                   .comm = bench_overlap_median_of(comm, runs)};
    result->uneven = bench_overlap_median_of(uneven, runs);
    bench_overlap_note_step(bench, result, runs);
    for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++)
        if (bench_overlap_is_wanted(bench, result->batch, kind) &&
            bench_overlap_median_of(result->kinds[kind].of_sequential, runs) >
                bench_overlap_median_of(result->kinds[result->best_kind].of_sequential, runs))
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
    result->of_best = bench_overlap_median_of(of_best, result->chosen.count);
    return STATUS_OK;
}

static void bench_overlap_note_choice(struct overlap_bench *bench, struct result *result) {
    struct runs *five_stage = &result->kinds[OVERLAP_DECODE_FIVE_STAGE];
    double five = bench_overlap_median_of(five_stage->of_sequential, five_stage->count);
    print_schedule(bench, result, "auto", &result->chosen, NULL);
    bench->measured++;
    bench->near_best += result->of_best <= NEAR_BEST;
    if (!result->batch) return;
    note_faster(&bench->five_stage, result->batch, five > 1);
    note_faster(&bench->any, result->batch, result->best_kind != OVERLAP_SEQUENTIAL);
}

/* Prints the best walk of two lanes, and the order in which it runs their stages. */
static void bench_overlap_print_bound(const struct overlap_bench *bench,
                                      const struct result *result) {
    const struct overlap_expected_two best = overlap_expected_of_two(&result->stepped);
    const double *stages = result->stepped.stages[1];
    double all = 0;
    if (bench->values.json) {
        printf(",{\"batch\":%u,\"schedule\":\"two lanes\"", result->batch);
        print_walked_json(result, &best.walked);
        printf(",\"early_sixteenths\":%u}", best.early_sixteenths);
        return;
    }
    printf("  %-20s %*s", "two lanes at best", 67, "");
    print_walked(result, &best.walked);
    printf("\n   ");
    for (int i = 0; i < BOUND_ROWS; i++)
        printf(" %s %c", overlap_stage_name((enum stage)best.rows[i].stage),
               'a' + best.rows[i].micro_batch);
    if (result->batch)
        printf("; %u of 16 answers' core attention in ATTN-0", best.early_sixteenths);
    for (int stage = 0; stage < STAGE_COUNT; stage++)
        all += stages[stage];
    printf("\n  of 100 that a layer with experts computes:");
    for (int stage = 0; stage < STAGE_COUNT; stage++)
        printf(" %s %.1f", overlap_stage_name((enum stage)stage), 100 * stages[stage] / all);
    printf("; of 100 that travel, dispatch %.0f\n",
           result->usual.comm > 0 ? 100 * result->stepped.dispatch / result->usual.comm : 0);
}

static enum status compare(struct overlap_bench *bench, uint32_t batch, struct error *error) {
    static struct result result;
    result = (struct result){.batch = batch};
    enum status status = choose_link(bench, &result, error);
    if (!status) status = measure_kinds(bench, &result, error);
    if (!status && all_wanted(bench)) status = measure_choice(bench, &result, error);
    if (status) return status;
    bench_overlap_print_head(bench, &result);
    for (int kind = 0; kind < OVERLAP_KIND_COUNT; kind++) {
        struct overlap_expected walked;
        if (!bench_overlap_is_wanted(bench, batch, kind)) continue;
        walked = overlap_expected_of(&result.stepped, (enum overlap_kind)kind);
        print_schedule(bench, &result, overlap_name((enum overlap_kind)kind), &result.kinds[kind],
                       &walked);
    }
    bench_overlap_print_bound(bench, &result);
    if (all_wanted(bench)) bench_overlap_note_choice(bench, &result);
    return STATUS_OK;
}

static void print_crossover(const char *what, uint32_t batch) {
    if (batch)
        printf("decode: %s faster than sequential from %u sequences a rank on\n", what, batch);
    else
        printf("decode: %s not faster than sequential at the largest batch\n", what);
}

static void print_end(const struct overlap_bench *bench) {
    if (bench->values.json) {
        printf("],\"crossover\":{\"decode-five-stage\":%u,\"any\":%u},\"near_best\":%u,"
               "\"measured\":%u",
               bench->five_stage, bench->any, bench->near_best, bench->measured);
        return;
    }
    if (!bench->measured) return;
    if (bench->batches.count) {
        print_crossover("decode-five-stage", bench->five_stage);
        print_crossover("the best schedule", bench->any);
    }
    printf("auto: within %.0f%% of the best at %u of %u\n", (NEAR_BEST - 1) * 100, bench->near_best,
           bench->measured);
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
    enum status status = model_run_sizes_read("--batch", bench->values.batch, batches, error);
    for (uint32_t i = 1; !status && i < batches->count; i++)
        if (batches->values[i] <= batches->values[i - 1])
            status = error_set(error, STATUS_INVALID, "--batch: %u after %u; sizes ascend",
                               batches->values[i], batches->values[i - 1]);
    return status;
}

static enum status bench_overlap_open_bench(struct overlap_bench *bench, struct error *error) {
    struct solo_options options = {.schedule = "sequential"};
    enum status status = read_batches(bench, error);
    if (!status) status = model_run_options(&bench->values.run, &options.model, error);
    if (!status) status = rank_job_options(&bench->values.job, &options.model, error);
    options.rebalance = rank_job_rebalance(&bench->values.job);
    if (status) return status;
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
    watch_stages(bench, options.model.trace);
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

/* Returns true if the program ends with that exit code. */
static bool begin(struct overlap_bench *bench, int argc, char **argv, int *exit_code_out) {
    const struct option_table *table = &bench_overlap_options;
    struct overlap_values *values = &bench->values;
    struct option_result result;
    if (!command_begin(table, argc, argv, values, &result, exit_code_out)) return true;
    if (!values->echo == (values->job.ranks > 1))
        return values->echo ? false : rank_job_begin(table, &values->job, exit_code_out);
    *exit_code_out = command_misused(table, "one rank sends nothing: give --ranks 2 or --echo 32, "
                                            "not both");
    return true;
}

int bench_overlap(int argc, char **argv) {
    struct overlap_bench bench = {.solo = NULL};
    struct error error = {.text = ""};
    int exit_code;
    if (begin(&bench, argc, argv, &exit_code)) return exit_code;
    enum status status = bench_overlap_open_bench(&bench, &error);
    if (!status && bench.values.json) printf("{\"runs\":[");
    if (!status) status = compare(&bench, 0, &error);
    if (!status && bench.batches.count) status = fill_contexts(&bench, &error);
    for (uint32_t i = 0; !status && i < bench.batches.count; i++)
        status = compare(&bench, bench.batches.values[i], &error);
    if (!status) print_end(&bench);
    if (!status) status = rank_job_write_trace(&bench.values.job, solo_group(bench.solo), &error);
    if (!status && bench.values.json) {
        rank_job_print_json(&bench.values.job, solo_group(bench.solo));
        printf("}\n");
    }
    solo_close(bench.solo);
    free(bench.tokens);
    free(bench.logits);
    free(bench.rows);
    free(bench.reports);
    return status ? command_failed(&bench_overlap_options, status, &error)
                  : command_end(&bench_overlap_options);
}
