/* SPDX-License-Identifier: Apache-2.0
 * fathom bench eplb: the expert-parallel load balancer on generated loads, beside the greedy of
 * DeepSeek's balancer and the proven bound; and batches drawn from loads that have drifted since,
 * split over replicas by flow and in turn. With --parts: what each part of the balancer brings, left
 * out alone.
 *
 * Loads: 58 layers of 256 experts in 8 groups, from fixed seeds. A batch is multinomial: every
 * choice of an expert is drawn alone from the drifted loads.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "bench/bench.h"
#include "bench/drawn_loads.h"
#include "compute/exchange/split_tokens.h"
#include "serving/policy/balance_experts.h"
#include "serving/policy/balance_keep.h"
#include "serving/policy/balance_traffic.h"

#define LAYERS 58
#define EXPERTS DRAWN_EXPERTS
#define GROUPS DRAWN_GROUPS
#define SLOTS 288
#define ROUNDS_MAX 99
#define SPLITS 21
#define BATCH_LAYERS 16 /* of the 58 get a batch */
#define CHOICES 8       /* experts a token */
#define CHOICE_GROUPS 4 /* of which they are */
#define LOOKS 4         /* of --parts: drifts after which experts move */
#define TOLERANCE 0.02  /* of --parts: as the rebalancer's */

struct eplb_bench_values {
    uint64_t tokens, rounds;
    double drift;
    bool parts, json;
};

#define AT(field) .offset = offsetof(struct eplb_bench_values, field)

static const struct option eplb_bench_rows[] = {
    {.name = "tokens",
     .type = OPTION_COUNT,
     .fallback = "64",
     .help = "tokens of a rank in a batch, of 8 experts each",
     .minimum = 1,
     .maximum = 16384,
     AT(tokens)},
    {.name = "drift",
     .type = OPTION_NUMBER,
     .fallback = "0.2",
     .help = "loads of the batches: those placed for, times a lognormal of this sigma",
     .minimum = 0,
     .maximum = 4,
     AT(drift)},
    {.name = "rounds",
     .type = OPTION_COUNT,
     .fallback = "5",
     .help = "times are medians of so many",
     .minimum = 1,
     .maximum = ROUNDS_MAX,
     AT(rounds)},
    {.name = "parts",
     .type = OPTION_FLAG,
     .help = "leave out one part of the balancer after the other: what each brings",
     AT(parts)},
    {.name = "json", .type = OPTION_FLAG, .help = "print one JSON object", AT(json)},
};

const struct option_table bench_eplb_options = {
    .command = "bench eplb",
    .arguments = "",
    .description = "Balance (mean rank load / largest) of placements for generated loads, and of "
                   "batches split over replicas.",
    .options = eplb_bench_rows,
    .option_count = ARRAY_COUNT(eplb_bench_rows),
};

struct eplb_bench {
    const struct eplb_bench_values *values;
    struct balance_shape shape;
    double loads[LAYERS][EXPERTS];
    uint64_t whole[LAYERS][EXPERTS]; /* the same in whole numbers */
    uint16_t slots[LAYERS][SLOTS];
    struct balance_outcome outcomes[LAYERS];
    uint16_t old[LAYERS][SLOTS]; /* of --parts: before experts move */
    uint32_t rows;               /* printed */
    void *memory, *split_memory;
};

struct eplb_line { /* means over the layers */
    double greedy, fast, fast_least, bound, strict, solve_ms;
    uint32_t below;                  /* layers below the greedy */
    double in_turn, split, split_us; /* of batches: largest rank load / mean; a call */
};

/* Of this thread: what a solve costs on one core, whoever else uses the machine. */
static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count) {
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}

static double mean_balance(const struct eplb_bench *bench) {
    double sum = 0;
    for (uint32_t i = 0; i < LAYERS; i++)
        sum += bench->outcomes[i].balance / LAYERS;
    return sum;
}

/* Milliseconds. */
static double solve(struct eplb_bench *bench, struct balance_options options) {
    double start = cpu_seconds();
    for (uint32_t i = 0; i < LAYERS; i++)
        balance_experts(&bench->shape, &options, bench->whole[i], bench->memory, bench->slots[i],
                        &bench->outcomes[i]);
    return (cpu_seconds() - start) * 1e3;
}

static void measure_placements(struct eplb_bench *bench, struct eplb_line *line) {
    double times[ROUNDS_MAX];
    solve(bench, (struct balance_options){BALANCE_STRICT, 0});
    line->strict = mean_balance(bench);
    for (uint64_t i = 0; i < bench->values->rounds; i++)
        times[i] = solve(bench, (struct balance_options){BALANCE_FREE, 0});
    line->solve_ms = median(times, bench->values->rounds);
    line->fast = mean_balance(bench);
    line->fast_least = 1;
    for (uint32_t i = 0; i < LAYERS; i++) {
        uint16_t slots[SLOTS];
        struct balance_outcome greedy, own = bench->outcomes[i];
        balance_experts_greedy(&bench->shape, bench->whole[i], bench->memory, slots, &greedy);
        line->greedy += greedy.balance / LAYERS;
        line->bound += own.bound / LAYERS;
        line->below += own.balance < greedy.balance;
        line->fast_least = fmin(line->fast_least, own.balance);
    }
}

static void draw_batch(const struct eplb_bench *bench, uint32_t layer, uint32_t *counts) {
    struct drawn_source source = {(uint64_t)9 << 32 | layer, 0};
    double sums[EXPERTS], sum = 0;
    uint64_t choices = bench->values->tokens * bench->shape.ranks * CHOICES;
    memset(counts, 0, EXPERTS * sizeof *counts);
    for (uint32_t e = 0; e < EXPERTS; e++)
        sums[e] = sum +=
            bench->loads[layer][e] * exp(bench->values->drift * drawn_loads_normal(&source));
    for (uint64_t i = 0; i < choices; i++) {
        double at = drawn_loads_uniform(&source) * sum;
        uint32_t low = 0; /* the first expert whose sum reaches it */
        for (uint32_t step = EXPERTS / 2; step > 0; step /= 2)
            if (sums[low + step - 1] < at) low += step;
        counts[low]++;
    }
}

/* The largest rank load when an expert's tokens go to its replicas in turn. */
static uint32_t spread_in_turn(const struct eplb_bench *bench, const struct split_tokens *split,
                               const uint32_t *counts) {
    uint32_t loads[SLOTS] = {0}, most = 0, room = SLOTS / bench->shape.ranks;
    for (uint32_t e = 0; e < EXPERTS; e++) {
        uint32_t first = split->firsts[e], replicas = split->firsts[e + 1] - first;
        for (uint32_t i = 0; i < replicas; i++)
            loads[split->slots[first + i] / room] += (counts[e] + replicas - 1 - i) / replicas;
    }
    for (uint32_t rank = 0; rank < bench->shape.ranks; rank++)
        most = loads[rank] > most ? loads[rank] : most;
    return most;
}

static void measure_batches(struct eplb_bench *bench, struct eplb_line *line) {
    double times[BATCH_LAYERS], mean = (double)bench->values->tokens * CHOICES;
    for (uint32_t i = 0; i < BATCH_LAYERS; i++) {
        uint32_t counts[EXPERTS], takes[SLOTS], level = 0;
        double best = INFINITY;
        struct split_tokens split;
        split_tokens_open(&split, EXPERTS, SLOTS, bench->shape.ranks, bench->slots[i],
                          bench->split_memory);
        draw_batch(bench, i, counts);
        for (int n = 0; n < SPLITS; n++) {
            double start = cpu_seconds();
            level = split_tokens(&split, counts, takes);
            best = fmin(best, cpu_seconds() - start);
        }
        times[i] = best * 1e6;
        line->split += level / mean / BATCH_LAYERS;
        line->in_turn += spread_in_turn(bench, &split, counts) / mean / BATCH_LAYERS;
    }
    line->split_us = median(times, BATCH_LAYERS);
}

static void print_line(struct eplb_bench *bench, uint32_t kind, const struct eplb_line *line) {
    if (bench->values->json) {
        printf("%s{\"ranks\":%u,\"loads\":\"%s\",\"greedy\":%.4f,\"balance\":%.4f,\"least\":%.4f,"
               "\"bound\":%.4f,\"below_greedy\":%u,\"strict\":%.4f,\"solve_ms\":%.3f,",
               bench->rows++ ? "," : "", bench->shape.ranks, drawn_loads_name(kind), line->greedy,
               line->fast, line->fast_least, line->bound, line->below, line->strict,
               line->solve_ms);
        printf("\"batch_in_turn\":%.4f,\"batch_split\":%.4f,\"split_us\":%.2f}", line->in_turn,
               line->split, line->split_us);
        return;
    }
    printf("%-16s %.4f  %.4f  %.4f  %.4f  %5u  %.4f  %8.2f", drawn_loads_name(kind), line->greedy,
           line->fast, line->fast_least, line->bound, line->below, line->strict, line->solve_ms);
    printf("   %.4f  %.4f  %8.1f\n", line->in_turn, line->split, line->split_us);
}

/* ---- parts ---- */

static const struct trial {
    const char *name;
    struct balance_options options;
} trials[] = {
    {"all parts", {BALANCE_FREE, 0}},
    {"- exchange", {BALANCE_FREE, BALANCE_EXCHANGE}},
    {"- spread", {BALANCE_FREE, BALANCE_SPREAD}},
    {"- near", {BALANCE_FREE, BALANCE_NEAR}},
    {"- second start", {BALANCE_FREE, BALANCE_SECOND_START}},
    {"- pairs", {BALANCE_FREE, BALANCE_PAIRS}},
    {"- repair", {BALANCE_FREE, BALANCE_REPAIR}},
    {"- names", {BALANCE_FREE, BALANCE_NAMES}},
    {"- keep pairs", {BALANCE_FREE, BALANCE_KEEP_PAIRS}},
    {"strict", {BALANCE_STRICT, 0}},
};

#define TRIALS ARRAY_COUNT(trials)
#define KINDS DRAWN_KINDS

enum measure { BALANCE, COPIES, BATCHES, SOLVE_MS, KEPT, MOVES, KEEP_MS, MEASURES };

static const char *const measure_names[MEASURES] = {
    [BALANCE] = "balance",   [COPIES] = "node copies", [BATCHES] = "batches",
    [SOLVE_MS] = "solve ms", [KEPT] = "kept balance",  [MOVES] = "moves",
    [KEEP_MS] = "keep ms",
};

struct brought {
    double of[TRIALS][KINDS][MEASURES];
};

static void draw_kind(struct eplb_bench *bench, uint32_t kind) {
    for (uint32_t i = 0; i < LAYERS; i++) {
        drawn_loads_layer(kind, i, bench->loads[i]);
        for (uint32_t e = 0; e < EXPERTS; e++)
            bench->whole[i][e] = (uint64_t)(bench->loads[i][e] * 0x1p40);
    }
}

/* Means over the layers, since a step waits for every one. */
static void look_at_placements(struct eplb_bench *bench, const struct trial *trial,
                               double *measures) {
    const struct balance_choice choice = {CHOICE_GROUPS, CHOICES};
    struct eplb_line line = {0};
    solve(bench, trial->options);
    measures[BALANCE] = mean_balance(bench);
    for (uint32_t i = 0; i < LAYERS && balance_experts_divides(&bench->shape); i++) {
        struct balance_traffic traffic;
        balance_traffic(&bench->shape, &choice, bench->whole[i], bench->slots[i], &traffic);
        measures[COPIES] += traffic.copies / LAYERS;
    }
    measure_batches(bench, &line);
    measures[BATCHES] = line.split;
}

/* Loads drift, experts move; the next drift finds the placement that this one left. Milliseconds
 * for one look at all layers. */
static double keep(struct eplb_bench *bench, const struct trial *trial, double *measures) {
    double seconds = 0;
    measures[KEPT] = measures[MOVES] = 0;
    solve(bench, (struct balance_options){trial->options.locality, 0});
    memcpy(bench->old, bench->slots, sizeof bench->old);
    for (uint32_t i = 0; i < LAYERS; i++) {
        double loads[EXPERTS];
        memcpy(loads, bench->loads[i], sizeof loads);
        for (uint32_t look = 0; look < LOOKS; look++) {
            struct drawn_source source = {(uint64_t)(100 + look) << 32 | i, 0};
            struct balance_keeping keeping = {bench->old[i], TOLERANCE};
            uint64_t whole[EXPERTS];
            uint32_t moves;
            for (uint32_t e = 0; e < EXPERTS; e++) {
                loads[e] *= exp(bench->values->drift * drawn_loads_normal(&source));
                whole[e] = (uint64_t)(loads[e] * 0x1p40);
            }
            double start = cpu_seconds();
            balance_keep(&bench->shape, &trial->options, whole, &keeping, bench->memory,
                         bench->slots[i], &bench->outcomes[i], &moves);
            seconds += cpu_seconds() - start;
            memcpy(bench->old[i], bench->slots[i], sizeof bench->old[i]);
            measures[KEPT] += bench->outcomes[i].balance / (LAYERS * LOOKS);
            measures[MOVES] += (double)moves / (LAYERS * LOOKS);
        }
    }
    return seconds * 1e3 / LOOKS;
}

/* The trials take turns, so that whoever else uses the machine disturbs them alike. */
static void measure_trials(struct eplb_bench *bench, struct brought *brought, uint32_t kind) {
    static double solves[TRIALS][ROUNDS_MAX], keeps[TRIALS][ROUNDS_MAX];
    draw_kind(bench, kind);
    for (uint64_t n = 0; n < bench->values->rounds; n++)
        for (uint32_t i = 0; i < TRIALS; i++) {
            solves[i][n] = solve(bench, trials[i].options);
            keeps[i][n] = keep(bench, &trials[i], brought->of[i][kind]);
        }
    for (uint32_t i = 0; i < TRIALS; i++) {
        look_at_placements(bench, &trials[i], brought->of[i][kind]);
        brought->of[i][kind][SOLVE_MS] = median(solves[i], bench->values->rounds);
        brought->of[i][kind][KEEP_MS] = median(keeps[i], bench->values->rounds);
    }
}

/* The numbers of the first trial, and what they change by in the others, in percent. */
static void print_trial(const struct brought *brought, uint32_t trial) {
    const char *name = trials[trial].name;
    for (uint32_t m = 0; m < MEASURES; m++) {
        double percents[KINDS];
        bool changes = trial == 0;
        for (uint32_t kind = 0; kind < KINDS; kind++) {
            double beside = brought->of[0][kind][m];
            percents[kind] = beside > 0 ? 100 * (brought->of[trial][kind][m] / beside - 1) : 0;
            changes |= fabs(percents[kind]) >= 0.005;
        }
        if (!changes) continue;
        printf("%-14s %-12s", name, measure_names[m]);
        for (uint32_t kind = 0; kind < KINDS; kind++)
            if (trial == 0)
                printf(" %14.4f", brought->of[trial][kind][m]);
            else
                printf(" %+13.2f%%", percents[kind]);
        printf("\n");
        name = "";
    }
}

static void print_trial_json(struct eplb_bench *bench, const struct brought *brought,
                             uint32_t trial) {
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        printf("%s{\"ranks\":%u,\"part\":\"%s\",\"loads\":\"%s\"", bench->rows++ ? "," : "",
               bench->shape.ranks, trials[trial].name, drawn_loads_name(kind));
        for (uint32_t m = 0; m < MEASURES; m++)
            printf(",\"%s\":%.6g", measure_names[m], brought->of[trial][kind][m]);
        printf("}");
    }
}

static void run_trials(struct eplb_bench *bench, uint32_t ranks, uint32_t nodes) {
    static struct brought brought;
    brought = (struct brought){0};
    bench->shape = (struct balance_shape){EXPERTS, GROUPS, SLOTS, ranks, nodes};
    for (uint32_t kind = 0; kind < KINDS; kind++)
        measure_trials(bench, &brought, kind);
    if (!bench->values->json) {
        printf("%u ranks, %u nodes, %d slots; moves of %d slots a layer at each of %d looks, drift "
               "%g\n%-27s",
               ranks, nodes, SLOTS, SLOTS, LOOKS, bench->values->drift, "");
        for (uint32_t kind = 0; kind < KINDS; kind++)
            printf(" %14s", drawn_loads_name(kind));
        printf("\n");
    }
    for (uint32_t i = 0; i < TRIALS; i++)
        if (bench->values->json)
            print_trial_json(bench, &brought, i);
        else
            print_trial(&brought, i);
}

/* ---- the whole ---- */

static void run(struct eplb_bench *bench, uint32_t ranks, uint32_t nodes) {
    bench->shape = (struct balance_shape){EXPERTS, GROUPS, SLOTS, ranks, nodes};
    if (!bench->values->json)
        printf("%u ranks, %u nodes, %d slots; batches of %llu tokens a rank: largest rank load / "
               "mean\n%-16s greedy    ours   least   bound  below  strict  solve ms  in turn    "
               "flow  flow us\n",
               ranks, nodes, SLOTS, (unsigned long long)bench->values->tokens, "loads");
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        struct eplb_line line = {0};
        draw_kind(bench, kind);
        measure_placements(bench, &line);
        measure_batches(bench, &line);
        print_line(bench, kind, &line);
    }
}

int bench_eplb(int argc, char **argv) {
    struct eplb_bench_values values;
    struct option_result result;
    int exit_code;
    if (!command_begin(&bench_eplb_options, argc, argv, &values, &result, &exit_code))
        return exit_code;
    struct balance_shape largest = {EXPERTS, GROUPS, SLOTS, 144, 18};
    struct eplb_bench *bench = calloc(1, sizeof *bench);
    check(bench);
    bench->values = &values;
    bench->memory = malloc(balance_keep_bytes(&largest));
    bench->split_memory = malloc(split_tokens_bytes(EXPERTS, SLOTS, 144));
    check(bench->memory && bench->split_memory);
    if (values.json) printf("{\"eplb\":[");
    static const struct {
        uint32_t ranks, nodes;
        bool table; /* also without --parts */
    } shapes[] = {{32, 4, true}, {72, 4, false}, {144, 18, true}};
    for (size_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        if (!values.parts && !shapes[i].table) continue;
        if (!values.json && i) printf("\n");
        (values.parts ? run_trials : run)(bench, shapes[i].ranks, shapes[i].nodes);
    }
    if (values.json) printf("]}\n");
    free(bench->split_memory);
    free(bench->memory);
    free(bench);
    return command_end(&bench_eplb_options);
}
