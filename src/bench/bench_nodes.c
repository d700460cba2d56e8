/* SPDX-License-Identifier: Apache-2.0
 * fathom bench nodes: units of the twin whose experts lie with all ranks alike, with groups whole on
 * nodes, and by price (serving/policy/rebalance.h), on the loads of `bench eplb`. A unit lives some
 * hours. At the beginning of each, loads drift and the rebalancer looks for some minutes, in which
 * step follows on step; what is told is of these minutes' ends. A unit of answers has all ranks
 * alike, and so one column.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "bench/bench.h"
#include "bench/drawn_loads.h"
#include "host/process/yaml_tree.h"
#include "simulate/hardware/builtin.h"
#include "simulate/hardware/stage_rates.h"
#include "simulate/hardware/step_clock.h"

#define RANKS_MAX 144
#define REDUNDANT 32
#define HOURS 6
#define HOUR_NS 3600000000000
#define LOOKED_NS 248000000000 /* of an hour: eight looks, half a minute apart */
#define MEMORY_BYTES ((size_t)128 << 20)
#define FP8_ROW 1.03 /* with its scales */
#define BF16_ROW 2.0

struct nodes_bench_values {
    const char *loads; /* the one kind; NULL: all */
    double drift;
    bool json;
};

#define AT(field) .offset = offsetof(struct nodes_bench_values, field)

static const struct option nodes_bench_rows[] = {
    {.name = "loads",
     .type = OPTION_TEXT,
     .help = "this kind alone, as the table names it",
     AT(loads)},
    {.name = "drift",
     .type = OPTION_NUMBER,
     .fallback = "0.04",
     .help = "share of the loads' logarithms that is new each hour, as variance",
     .minimum = 0,
     .maximum = 1,
     AT(drift)},
    {.name = "json", .type = OPTION_FLAG, .help = "print one JSON object", AT(json)},
};

const struct option_table bench_nodes_options = {
    .command = "bench nodes",
    .arguments = "",
    .description =
        "Experts balanced over nodes while serving, beside all ranks alike and groups whole on "
        "nodes, in the twin.",
    .options = nodes_bench_rows,
    .option_count = sizeof nodes_bench_rows / sizeof *nodes_bench_rows,
};

enum nodes_way { NODES_ALIKE, NODES_WHOLE, NODES_BY_PRICE, NODES_WAY_COUNT };

static const char *const way_names[NODES_WAY_COUNT] = {"alike", "groups", "price"};

struct nodes_unit {
    const char *name, *brings; /* brings: what each rank brings to a step */
    uint32_t ranks;
    bool makes_answers;
    enum overlap_kind overlap;
    struct step_share share;
};

static const struct nodes_unit units[] = {
    {.name = "prompts",
     .brings = "16,384 tokens in prompts of 4,096",
     .ranks = 32,
     .overlap = OVERLAP_PREFILL_DUAL_BATCH,
     .share = {.prompt_tokens = 16384, .attended = 16384 * 4097 / 2, .slowness = 1}},
    {.name = "answers",
     .brings = "88 answers at 5,000 tokens",
     .ranks = 144,
     .makes_answers = true,
     .overlap = OVERLAP_DECODE_FIVE_STAGE,
     .share = {.answer_rows = 88, .answer_tokens = 88, .context = 88 * 5000, .slowness = 1}},
};

struct nodes_bench {
    struct nodes_bench_values values;
    struct arena files, clocks;
    struct hardware hardware;
    struct model_figures model;
    double *logs; /* [layers][DRAWN_EXPERTS] */
    struct step_share shares[RANKS_MAX];
    uint32_t lines; /* told so far */
    struct error error;
};

struct nodes_line { /* means over the hours */
    double balance, kilobytes, step_ms, moves, far;
};

static enum status read_files(struct nodes_bench *bench) {
    const char *names[] = {"h800", "deepseek-v3"};
    const struct tree *trees[2];
    for (int i = 0; i < 2; i++) {
        struct bytes text = builtin_text(i ? BUILTIN_MODEL : BUILTIN_HARDWARE, bytes_of(names[i]));
        enum status status =
            yaml_tree_parse(&bench->files, text, names[i], &trees[i], &bench->error);
        if (status) return status;
    }
    enum status status =
        hardware_read(&bench->files, trees[0], names[0], &bench->hardware, &bench->error);
    if (status) return status;
    return model_figures_read(trees[1], names[1], &bench->model, &bench->error);
}

static uint32_t sparse_layers(const struct nodes_bench *bench) {
    return bench->model.layers - bench->model.dense_layers;
}

static void draw_logs(struct nodes_bench *bench, uint32_t kind) {
    check(bench->model.experts == DRAWN_EXPERTS && bench->model.expert_groups == DRAWN_GROUPS);
    for (uint32_t layer = 0; layer < sparse_layers(bench); layer++) {
        double *logs = bench->logs + (size_t)layer * DRAWN_EXPERTS;
        drawn_loads_layer(kind, layer, logs);
        for (uint32_t e = 0; e < DRAWN_EXPERTS; e++)
            logs[e] = log(logs[e]);
    }
}

/* Kilobytes of a token and layer that go to other nodes, and back: a token's own node is any. An
 * answer's token sends each expert a row of its own. */
static double kilobytes_of(const struct nodes_bench *bench, const struct nodes_unit *unit,
                           double copies) {
    double away = 1 - (double)bench->hardware.gpus_per_node / unit->ranks;
    if (unit->makes_answers) copies = bench->model.experts_per_token;
    return copies * away * bench->model.hidden * (FP8_ROW + BF16_ROW) * 1e-3;
}

static enum status live(struct nodes_bench *bench, const struct nodes_unit *unit,
                        enum nodes_way way, struct nodes_line *line) {
    const struct step_clock_options options = {.hardware = &bench->hardware,
                                               .model = &bench->model,
                                               .ranks = unit->ranks,
                                               .ranks_per_node = bench->hardware.gpus_per_node,
                                               .redundant_experts = REDUNDANT,
                                               .balance_experts = true,
                                               .makes_answers = way == NODES_ALIKE,
                                               .whole_groups = way == NODES_WHOLE,
                                               .expert_skew = 1,
                                               .expert_logs = bench->logs,
                                               .expert_drift = bench->values.drift,
                                               .seed = 1};
    struct step_clock *clock;
    arena_clear(&bench->clocks);
    enum status status = step_clock_open(&bench->clocks, &options, &clock, &bench->error);
    if (status) return status;
    *line = (struct nodes_line){0};
    for (int64_t hour = 0; hour < HOURS; hour++) {
        struct step_time time = {0};
        for (int64_t ns = 0; ns < LOOKED_NS; ns += time.ns)
            time = step_clock_step(clock, bench->shares, unit->overlap, hour * HOUR_NS + ns);
        line->balance += 1 / step_clock_balance_mean(clock) / HOURS;
        line->kilobytes += kilobytes_of(bench, unit, step_clock_copies(clock)) / HOURS;
        line->step_ms += (double)time.ns * 1e-6 / HOURS;
    }
    double looks = (double)sparse_layers(bench) * (HOURS - 1);
    line->moves = (double)step_clock_moves(clock) / looks;
    line->far = (double)step_clock_moves_far(clock) / looks;
    return STATUS_OK;
}

static void print_line(struct nodes_bench *bench, const struct nodes_unit *unit, uint32_t kind,
                       enum nodes_way way, const struct nodes_line *line) {
    if (bench->values.json)
        printf("%s{\"unit\":\"%s\",\"loads\":\"%s\",\"ranks\":\"%s\",\"balance\":%.4f,"
               "\"kilobytes\":%.2f,\"step_ms\":%.2f,\"moves\":%.2f,\"moves_far\":%.2f}",
               bench->lines++ ? "," : "", unit->name, drawn_loads_name(kind), way_names[way],
               line->balance, line->kilobytes, line->step_ms, line->moves, line->far);
    else
        printf("  %7.3f %6.1f %8.1f %6.1f %6.1f", line->balance, line->kilobytes, line->step_ms,
               line->moves, line->far);
}

static bool is_asked_for(const struct nodes_bench *bench, uint32_t kind) {
    return !bench->values.loads || strcmp(bench->values.loads, drawn_loads_name(kind)) == 0;
}

static bool has_loads(const struct nodes_bench *bench) {
    for (uint32_t kind = 0; kind < DRAWN_KINDS; kind++)
        if (is_asked_for(bench, kind)) return true;
    return false;
}

static void print_head(const struct nodes_bench *bench, const struct nodes_unit *unit) {
    if (bench->values.json) return;
    printf("%s: %u ranks of %u a node, %d redundant experts; each brings %s\n%-16s", unit->name,
           unit->ranks, bench->hardware.gpus_per_node, REDUNDANT, unit->brings, "loads");
    for (int way = 0; way < (unit->makes_answers ? 1 : NODES_WAY_COUNT); way++)
        printf("  %-37s",
               (const char *[]){"all ranks alike", "groups whole on nodes", "by price"}[way]);
    printf("\n");
}

/* What a layer's two transfers take by the hardware file, alone, and what the bytes between nodes take
 * of a rank's link to them. Groups are taken to be whole on nodes, and equally often chosen. */
static void print_transfers(const struct nodes_bench *bench, const struct nodes_unit *unit) {
    const struct hardware *hardware = &bench->hardware;
    const double tokens = unit->share.prompt_tokens + (double)unit->share.answer_tokens;
    const double nodes = (double)unit->ranks / hardware->gpus_per_node;
    const struct stage_transfers transfers =
        stage_rates_transfers(hardware->stages, &bench->model, unit->ranks, hardware->gpus_per_node,
                              !unit->makes_answers);
    const double bytes =
        kilobytes_of(bench, unit, stage_rates_copies(&bench->model, nodes)) * 1e3 * tokens;
    const double link_us = bytes / (hardware->nic_gbps / 8 * 1e3), all = FP8_ROW + BF16_ROW;
    if (bench->values.json) return;
    printf("  a layer's transfers alone: dispatch %.0f us, combine %.0f us; bytes between nodes by "
           "the link's rate: %.0f and %.0f us\n",
           transfers.dispatch_us + transfers.dispatch_token_us * tokens,
           transfers.combine_us + transfers.combine_token_us * tokens, link_us * FP8_ROW / all,
           link_us * BF16_ROW / all);
}

static enum status run_unit(struct nodes_bench *bench, const struct nodes_unit *unit) {
    enum status status = STATUS_OK;
    for (uint32_t rank = 0; rank < unit->ranks; rank++)
        bench->shares[rank] = unit->share;
    print_head(bench, unit);
    for (uint32_t kind = 0; kind < DRAWN_KINDS && !status; kind++) {
        if (!is_asked_for(bench, kind)) continue;
        draw_logs(bench, kind);
        if (!bench->values.json) printf("%-16s", drawn_loads_name(kind));
        for (int way = 0; way < (unit->makes_answers ? 1 : NODES_WAY_COUNT) && !status; way++) {
            struct nodes_line line;
            status = live(bench, unit, (enum nodes_way)way, &line);
            if (!status) print_line(bench, unit, kind, (enum nodes_way)way, &line);
        }
        if (!bench->values.json) printf("\n");
    }
    if (!status) print_transfers(bench, unit);
    return status;
}

static enum status run_units(struct nodes_bench *bench) {
    enum status status = read_files(bench);
    if (status) return status;
    bench->logs = calloc((size_t)sparse_layers(bench) * DRAWN_EXPERTS, sizeof *bench->logs);
    check(bench->logs);
    printf(
        bench->values.json
            ? "{\"nodes\":["
            : "for each: balance, kB of a token and layer between nodes, ms a step, moves a layer "
              "and hour, of them from another node\n");
    for (size_t i = 0; i < sizeof units / sizeof *units && !status; i++)
        status = run_unit(bench, &units[i]);
    if (bench->values.json) printf("]}\n");
    return status;
}

int bench_nodes(int argc, char **argv) {
    static struct nodes_bench bench;
    struct option_result result;
    int exit_code;
    if (!command_begin(&bench_nodes_options, argc, argv, &bench.values, &result, &exit_code))
        return exit_code;
    if (!has_loads(&bench))
        return command_misused(&bench_nodes_options,
                               "--loads must be one of the table's, such as 'hot groups'");
    void *memory = malloc(2 * MEMORY_BYTES);
    if (!memory) {
        error_set(&bench.error, STATUS_NO_MEMORY, "no memory for the clocks");
        return command_failed(&bench_nodes_options, STATUS_NO_MEMORY, &bench.error);
    }
    arena_over(&bench.files, memory, MEMORY_BYTES);
    arena_over(&bench.clocks, (char *)memory + MEMORY_BYTES, MEMORY_BYTES);
    enum status status = run_units(&bench);
    free(bench.logs);
    free(memory);
    if (status) return command_failed(&bench_nodes_options, status, &bench.error);
    return command_end(&bench_nodes_options);
}
