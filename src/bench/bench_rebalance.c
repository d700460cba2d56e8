/* SPDX-License-Identifier: Apache-2.0
 * fathom bench rebalance: what it costs the steps that experts move while they run, and what it is
 * worth to split a batch's tokens over replicas by flow.
 *
 * Moving: every rank decodes; runs in which experts change slots all the time (a new map by chance
 * as soon as the last one is carried out) alternate with quiet ones. Of each run the median and the
 * 99th percentile of its step times; of those, the medians over the runs.
 *
 * Drain: the last rank is masked and comes back, over and over; the steps meanwhile, beside the
 * quiet ones.
 *
 * Replicas: the same steps by turns and by flow. Balance is counted, not timed: after each of some
 * steps all ranks say what their slots computed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/random.h"
#include "bench/bench.h"
#include "bench/machine_limits.h"
#include "command/model_run.h"
#include "command/rank_job.h"
#include "compute/model/moves.h"

#define RUNS_MAX 99
#define STEPS_MAX 512
#define CONTEXT 64u /* tokens of a decoding sequence at first */
#define COUNTED_STEPS 8

struct rebalance_values {
    struct model_run_values run;
    struct rank_job_values job;
    uint64_t runs, steps, sequences;
    const char *batch;
    bool drain, damage, json;
};

#define AT(field) .offset = offsetof(struct rebalance_values, field)

static const struct option rebalance_rows[] = {
    MODEL_RUN_OPTIONS,
    RANK_JOB_OPTIONS(struct rebalance_values),
    {.name = "runs",
     .type = OPTION_COUNT,
     .fallback = "9",
     .help = "runs of each kind, of which the median counts",
     .minimum = 1,
     .maximum = RUNS_MAX,
     AT(runs)},
    {.name = "steps",
     .type = OPTION_COUNT,
     .fallback = "200",
     .help = "decode steps in a run",
     .minimum = 1,
     .maximum = STEPS_MAX,
     AT(steps)},
    {.name = "sequences",
     .type = OPTION_COUNT,
     .fallback = "16",
     .help = "sequences of each rank that decode while experts move",
     .minimum = 1,
     .maximum = LIMIT_STEP_ROWS,
     AT(sequences)},
    {.name = "batch",
     .type = OPTION_TEXT,
     .fallback = "4,16,64,128",
     .help = "sequences of each rank for which turns and flow are compared: one measurement each",
     AT(batch)},
    {.name = "drain",
     .type = OPTION_FLAG,
     .help = "time steps, too, while a rank is drained and comes back; the others need slots for "
             "all experts (--redundant-experts)",
     AT(drain)},
    {.name = "damage",
     .type = OPTION_FLAG,
     .help = "turn a bit of an expert on its way to each rank, and fail unless that is noticed",
     AT(damage)},
    {.name = "json", .type = OPTION_FLAG, .help = "print one JSON object", AT(json)},
};

const struct option_table bench_rebalance_options = {
    .command = "bench rebalance",
    .arguments = "",
    .description =
        "Step times while experts move between ranks, and replicas by turns and by flow.",
    .options = rebalance_rows,
    .option_count = ARRAY_COUNT(rebalance_rows),
};

struct rebalance_bench {
    struct rebalance_values values;
    struct model_run_sizes batches;
    uint32_t sequences_max, ranks;
    struct solo *solo;
    struct rebalancer *rebalancer;
    uint32_t vocab, *tokens;
    float *logits;
    struct solo_row *rows;
    struct model_moving *told;
    uint32_t *slot_tokens;
};

/* Seconds of a run's steps. */
struct rebalance_figures {
    double median, p99;
};

/* Each sequence's next token; they lengthen until CONTEXT doubles, then start again. */
static enum status decode(struct rebalance_bench *bench, uint32_t batch, uint32_t step,
                          double *seconds_out, struct error *error) {
    uint32_t count = batch * bench->ranks;
    for (uint32_t i = 0; i < count; i++) {
        if (step % CONTEXT == 0) solo_truncate(bench->solo, i, CONTEXT);
        bench->rows[i] = (struct solo_row){.sequence = i,
                                           .form = TOKEN_GENERATED,
                                           .tokens = bench->tokens + (7 * i + step) % STEPS_MAX,
                                           .token_count = 1,
                                           .logits_count = 1};
    }
    double start = machine_limits_now();
    enum status status = solo_step(bench->solo, bench->rows, count, bench->logits, NULL, error);
    *seconds_out = machine_limits_now() - start;
    return status;
}

/* ---- moving ---- */

/* Some steps that do not count, until no expert is on its way. */
static enum status settle(struct rebalance_bench *bench, struct error *error) {
    enum status status = STATUS_OK;
    double unused;
    for (uint32_t step = 0; !status && (step < 8 || rebalancer_is_busy(bench->rebalancer)); step++)
        status = decode(bench, (uint32_t)bench->values.sequences, step, &unused, error);
    return status;
}

enum what { QUIET, MOVING, DRAINING };
static const char *const what_names[] = {"quiet", "moving", "draining"};

/* What there is to do beside the next step. */
static enum status stir(struct rebalance_bench *bench, enum what what, struct error *error) {
    uint32_t last = bench->ranks - 1;
    if (what == MOVING) rebalancer_reshuffle(bench->rebalancer);
    if (what != DRAINING || rebalancer_is_busy(bench->rebalancer)) return STATUS_OK;
    return rebalancer_mask(bench->rebalancer, last, !rebalancer_is_empty(bench->rebalancer, last),
                           error);
}

static enum status time_run(struct rebalance_bench *bench, enum what what,
                            struct rebalance_figures *out, struct error *error) {
    double seconds[STEPS_MAX];
    uint32_t count = (uint32_t)bench->values.steps, batch = (uint32_t)bench->values.sequences;
    enum status status = settle(bench, error);
    for (uint32_t step = 0; !status && step < count; step++) {
        status = stir(bench, what, error);
        if (!status) status = decode(bench, batch, step, &seconds[step], error);
    }
    if (status) return status;
    out->median = machine_limits_median(seconds, count); /* sorts */
    out->p99 = seconds[(size_t)(count - 1) * 99 / 100];
    return STATUS_OK;
}

static void print_runs(const struct rebalance_bench *bench, const char *name, double *medians,
                       double *p99s) {
    uint32_t count = (uint32_t)bench->values.runs;
    double median = machine_limits_median(medians, count), p99 = machine_limits_median(p99s, count);
    if (bench->values.json)
        printf("\"%s\":{\"median_ms\":%.4f,\"p99_ms\":%.4f,\"p99_least_ms\":%.4f,"
               "\"p99_most_ms\":%.4f},\n",
               name, median * 1e3, p99 * 1e3, p99s[0] * 1e3, p99s[count - 1] * 1e3);
    else
        printf("  %-8s %10.3f %10.3f (%.3f-%.3f)\n", name, median * 1e3, p99 * 1e3, p99s[0] * 1e3,
               p99s[count - 1] * 1e3);
}

static enum status compare_steps(struct rebalance_bench *bench, enum what what,
                                 struct error *error) {
    static double medians[2][RUNS_MAX], p99s[2][RUNS_MAX];
    uint32_t runs = (uint32_t)bench->values.runs;
    struct rebalancer_counts before = rebalancer_counts(bench->rebalancer);
    for (uint32_t run = 0; run < runs; run++)
        for (int moves = 0; moves < 2; moves++) {
            struct rebalance_figures figures;
            enum status status = time_run(bench, moves ? what : QUIET, &figures, error);
            if (status) return status;
            medians[moves][run] = figures.median;
            p99s[moves][run] = figures.p99;
        }
    enum status settled = settle(bench, error);
    if (!settled && what == DRAINING)
        settled = rebalancer_mask(bench->rebalancer, bench->ranks - 1, false, error);
    if (!settled) settled = settle(bench, error);
    if (settled) return settled;
    struct rebalancer_counts after = rebalancer_counts(bench->rebalancer);
    double bytes = (double)(after.bytes - before.bytes);
    uint64_t adopted = after.version - before.version;
    double stall_us =
        adopted ? (double)(after.stall_ns - before.stall_ns) * 1e-3 / (double)adopted : 0;
    if (!bench->values.json)
        printf("decode, %llu sequences a rank, %u x %llu steps of each kind\n"
               "  %-8s %10s %10s\n",
               (unsigned long long)bench->values.sequences, runs,
               (unsigned long long)bench->values.steps, "steps", "median ms", "p99 ms");
    if (bench->values.json) printf("\"%s_and_quiet\":{", what_names[what]);
    print_runs(bench, "quiet", medians[0], p99s[0]);
    print_runs(bench, what_names[what], medians[1], p99s[1]);
    double of_median =
        machine_limits_median(medians[1], runs) / machine_limits_median(medians[0], runs);
    double of_p99 = machine_limits_median(p99s[1], runs) / machine_limits_median(p99s[0], runs);
    if (bench->values.json)
        printf(
            "\"median_ratio\":%.3f,\"p99_ratio\":%.3f,\"experts_moved\":%llu,"
            "\"bytes_moved\":%.0f,\"adoptions\":%llu,\"stall_us\":%.2f,\"stall_us_max\":%.2f},\n",
            of_median, of_p99, (unsigned long long)(after.moves - before.moves), bytes,
            (unsigned long long)adopted, stall_us, (double)after.stall_ns_max * 1e-3);
    else
        printf("  %s / quiet: median %.3f, p99 %.3f; %llu experts, %.1f MiB; %llu adoptions of "
               "%.1f us, %.1f at most\n",
               what_names[what], of_median, of_p99,
               (unsigned long long)(after.moves - before.moves), bytes / (1 << 20),
               (unsigned long long)adopted, stall_us, (double)after.stall_ns_max * 1e-3);
    return STATUS_OK;
}

/* A bit of what comes next to every rank is turned: its layer stays as it was. */
static enum status check_damage(struct rebalance_bench *bench, struct error *error) {
    uint64_t before = rebalancer_counts(bench->rebalancer).failures;
    rank_group_damage(solo_group(bench->solo));
    rebalancer_reshuffle(bench->rebalancer);
    enum status status = settle(bench, error);
    uint64_t noticed = rebalancer_counts(bench->rebalancer).failures - before;
    if (status == STATUS_OK && noticed < bench->ranks)
        status =
            error_set(error, STATUS_CORRUPT,
                      "an expert was damaged on its way to each of %u ranks, %llu were noticed",
                      bench->ranks, (unsigned long long)noticed);
    if (bench->values.json) printf("\"damage_noticed\":%llu,\n", (unsigned long long)noticed);
    return status;
}

/* ---- replicas ---- */

/* Largest rank load by mean, of the step that was last, over all layers. */
static double imbalance(struct rebalance_bench *bench) {
    const struct model *model = solo_model(bench->solo);
    uint32_t slots = model_slot_count(model);
    uint32_t room = model_placement(model)->slots_per_rank;
    uint64_t most_sum = 0, sum = 0;
    rank_group_tell(solo_group(bench->solo), bench->told, bench->slot_tokens);
    for (uint32_t layer = 0; layer < slots / room; layer++) {
        uint64_t most = 0;
        for (uint32_t rank = 0; rank < bench->ranks; rank++) {
            uint64_t load = 0;
            for (uint32_t i = 0; i < room; i++)
                load += bench->slot_tokens[(size_t)rank * slots + layer * room + i];
            if (load > most) most = load;
            sum += load;
        }
        most_sum += most;
    }
    return sum ? (double)most_sum * bench->ranks / (double)sum : 0;
}

static enum status time_replicas(struct rebalance_bench *bench, uint32_t batch,
                                 enum replica_choice choice, double *seconds_out,
                                 double *imbalance_out, struct error *error) {
    double seconds[STEPS_MAX], sum = 0, unused;
    uint32_t count = (uint32_t)bench->values.steps < 32 ? (uint32_t)bench->values.steps : 32;
    enum status status = STATUS_OK;
    rank_group_set_replicas(solo_group(bench->solo), choice);
    imbalance(bench);
    for (uint32_t step = 0; !status && step < COUNTED_STEPS; step++) {
        status = decode(bench, batch, step, &unused, error);
        sum += imbalance(bench);
    }
    for (uint32_t step = 0; !status && step < count; step++)
        status = decode(bench, batch, COUNTED_STEPS + step, &seconds[step], error);
    if (status) return status;
    *seconds_out = machine_limits_median(seconds, count);
    *imbalance_out = sum / COUNTED_STEPS;
    return STATUS_OK;
}

static enum status compare_replicas(struct rebalance_bench *bench, uint32_t batch, bool first,
                                    struct error *error) {
    static double seconds[2][RUNS_MAX];
    double uneven[2] = {0};
    uint32_t runs = (uint32_t)bench->values.runs;
    for (uint32_t run = 0; run < runs; run++)
        for (int flow = 0; flow < 2; flow++) {
            enum status status = time_replicas(bench, batch, flow ? REPLICAS_FLOW : REPLICAS_TURNS,
                                               &seconds[flow][run], &uneven[flow], error);
            if (status) return status;
        }
    double turns = machine_limits_median(seconds[0], runs);
    double flow = machine_limits_median(seconds[1], runs);
    if (bench->values.json)
        printf("%s\n  {\"batch\":%u,\"turns_ms\":%.4f,\"flow_ms\":%.4f,\"ratio\":%.3f,"
               "\"turns_max_by_mean\":%.4f,\"flow_max_by_mean\":%.4f}",
               first ? "" : ",", batch, turns * 1e3, flow * 1e3, flow / turns, uneven[0],
               uneven[1]);
    else
        printf("  %8u %12.3f %12.3f %10.3f %14.3f %12.3f\n", batch, turns * 1e3, flow * 1e3,
               flow / turns, uneven[0], uneven[1]);
    return STATUS_OK;
}

static enum status compare_all_replicas(struct rebalance_bench *bench, struct error *error) {
    const struct placement *map = model_placement(solo_model(bench->solo));
    enum status status = STATUS_OK;
    bool has_replicas = map->ranks * map->slots_per_rank > map->experts;
    if (bench->values.json) printf("\"replicas\":[");
    if (!has_replicas && !bench->values.json)
        printf("no replicas: give --redundant-experts to compare turns and flow\n");
    if (has_replicas && !bench->values.json)
        printf("replicas by turns and by flow\n  %8s %12s %12s %10s %14s %12s\n", "batch",
               "turns ms", "flow ms", "flow/turns", "max/mean turns", "flow");
    for (uint32_t i = 0; !status && has_replicas && i < bench->batches.count; i++)
        status = compare_replicas(bench, bench->batches.values[i], i == 0, error);
    if (bench->values.json) printf("]");
    return status;
}

/* ---- opening ---- */

static enum status take_memory(struct rebalance_bench *bench, struct error *error) {
    const struct model *model = solo_model(bench->solo);
    uint32_t rows = bench->ranks * bench->sequences_max;
    bench->vocab = model_shape(model)->vocab;
    bench->tokens = malloc((STEPS_MAX + CONTEXT) * sizeof *bench->tokens);
    bench->logits = malloc((size_t)rows * bench->vocab * sizeof *bench->logits);
    bench->rows = calloc(rows, sizeof *bench->rows);
    bench->told = calloc(bench->ranks, sizeof *bench->told);
    bench->slot_tokens =
        calloc((size_t)bench->ranks * model_slot_count(model), sizeof *bench->slot_tokens);
    if (!bench->tokens || !bench->logits || !bench->rows || !bench->told || !bench->slot_tokens)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the tokens");
    for (uint32_t i = 0; i < STEPS_MAX + CONTEXT; i++)
        bench->tokens[i] = (uint32_t)(random_uniform(1, 0, i) * bench->vocab);
    return STATUS_OK;
}

static enum status open_bench(struct rebalance_bench *bench, struct error *error) {
    struct solo_options options = {.schedule = "sequential"};
    enum status status =
        model_run_sizes_read("--batch", bench->values.batch, &bench->batches, error);
    if (!status) status = model_run_options(&bench->values.run, &options.model, error);
    if (!status) status = rank_job_options(&bench->values.job, &options.model, error);
    if (status) return status;
    bench->ranks = (uint32_t)bench->values.job.ranks;
    bench->sequences_max = (uint32_t)bench->values.sequences;
    if (bench->sequences_max < bench->batches.largest)
        bench->sequences_max = bench->batches.largest;
    options.rebalance = rank_job_rebalance(&bench->values.job);
    options.sequences = bench->ranks * bench->sequences_max;
    options.context_max = 3 * CONTEXT;
    options.model.step_tokens_max = bench->sequences_max > CONTEXT ? bench->sequences_max : CONTEXT;
    status = model_run_open(&options, &bench->solo, error);
    if (!status) status = take_memory(bench, error);
    if (status) return status;
    bench->rebalancer = solo_rebalancer(bench->solo);
    for (uint32_t i = 0; !status && i < options.sequences; i++)
        status = solo_prefill(bench->solo, i, bench->tokens + i % CONTEXT, CONTEXT, 0,
                              bench->logits, error);
    return status;
}

int bench_rebalance(int argc, char **argv) {
    struct rebalance_bench bench = {.solo = NULL};
    struct error error = {.text = ""};
    int exit_code;
    if (rank_job_begin_bench(&bench_rebalance_options, argc, argv, &bench.values, &bench.values.job,
                             "moves nothing", &exit_code))
        return exit_code;
    enum status status = open_bench(&bench, &error);
    if (!status && bench.values.json) printf("{");
    if (!status) status = compare_steps(&bench, MOVING, &error);
    if (!status && bench.values.drain) status = compare_steps(&bench, DRAINING, &error);
    if (!status && bench.values.damage) status = check_damage(&bench, &error);
    if (!status) status = compare_all_replicas(&bench, &error);
    if (!status && bench.values.json) {
        rank_job_print_json(&bench.values.job, solo_group(bench.solo));
        printf("}\n");
    }
    solo_close(bench.solo);
    free(bench.tokens);
    free(bench.logits);
    free(bench.rows);
    free(bench.told);
    free(bench.slot_tokens);
    return status ? command_failed(&bench_rebalance_options, status, &error)
                  : command_end(&bench_rebalance_options);
}
