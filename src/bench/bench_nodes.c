/* SPDX-License-Identifier: Apache-2.0
 * fathom bench nodes: a prefill unit of the twin whose experts lie with all ranks alike, and one that
 * weighs nodes (serving/policy/rebalance.h), on the loads of `bench eplb`. It lives some hours, in each
 * of which loads drift and the rebalancer looks; what is told is of the hours' ends.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "bench/bench.h"
#include "bench/drawn_loads.h"
#include "host/process/yaml_tree.h"
#include "simulate/hardware/builtin.h"
#include "simulate/hardware/step_clock.h"

#define RANKS 32
#define REDUNDANT 32
#define PROMPT_TOKENS 16384 /* of a rank, in prompts of 4,096 */
#define MEAN_CONTEXT 2048.5
#define HOURS 6
#define HOUR_NS 3600000000000
#define LOOK_NS 31000000000
#define LOOKS 8
#define MEMORY_BYTES ((size_t)128 << 20)
#define FP8_ROW 1.03 /* with its scales */
#define BF16_ROW 2.0

struct nodes_bench_values {
    double drift;
    bool json;
};

#define AT(field) .offset = offsetof(struct nodes_bench_values, field)

static const struct option nodes_bench_rows[] = {
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
        "Experts balanced over nodes while serving, beside all ranks alike, in the twin.",
    .options = nodes_bench_rows,
    .option_count = sizeof nodes_bench_rows / sizeof *nodes_bench_rows,
};

struct nodes_bench {
    struct nodes_bench_values values;
    struct arena files, clocks;
    struct hardware hardware;
    struct model_figures model;
    double *logs; /* [layers][DRAWN_EXPERTS] */
    struct step_share shares[RANKS];
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

/* Kilobytes of a token and layer that go to other nodes, and back: a token's own node is any. */
static double kilobytes_of(const struct nodes_bench *bench, double copies) {
    double away = 1 - (double)bench->hardware.gpus_per_node / RANKS;
    return copies * away * bench->model.hidden * (FP8_ROW + BF16_ROW) * 1e-3;
}

static enum status live(struct nodes_bench *bench, bool weighs_nodes, struct nodes_line *line) {
    const struct step_clock_options options = {.hardware = &bench->hardware,
                                               .model = &bench->model,
                                               .ranks = RANKS,
                                               .ranks_per_node = bench->hardware.gpus_per_node,
                                               .redundant_experts = REDUNDANT,
                                               .balance_experts = true,
                                               .makes_answers = !weighs_nodes,
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
        for (int64_t look = 0; look < LOOKS; look++)
            time = step_clock_step(clock, bench->shares, OVERLAP_PREFILL_DUAL_BATCH,
                                   hour * HOUR_NS + look * LOOK_NS);
        line->balance += 1 / step_clock_balance_mean(clock) / HOURS;
        line->kilobytes += kilobytes_of(bench, step_clock_copies(clock)) / HOURS;
        line->step_ms += (double)time.ns * 1e-6 / HOURS;
    }
    double looks = (double)sparse_layers(bench) * (HOURS - 1);
    line->moves = (double)step_clock_moves(clock) / looks;
    line->far = (double)step_clock_moves_far(clock) / looks;
    return STATUS_OK;
}

static void print_kind(const struct nodes_bench *bench, uint32_t kind,
                       const struct nodes_line lines[2]) {
    static const char *const names[2] = {"alike", "nodes"};
    if (!bench->values.json) printf("%-16s", drawn_loads_name(kind));
    for (int i = 0; i < 2; i++)
        if (bench->values.json)
            printf("%s{\"loads\":\"%s\",\"ranks\":\"%s\",\"balance\":%.4f,\"kilobytes\":%.2f,"
                   "\"step_ms\":%.2f,\"moves\":%.2f,\"moves_far\":%.2f}",
                   kind || i ? "," : "", drawn_loads_name(kind), names[i], lines[i].balance,
                   lines[i].kilobytes, lines[i].step_ms, lines[i].moves, lines[i].far);
        else
            printf("  %7.3f %6.1f %8.1f %6.1f %6.1f", lines[i].balance, lines[i].kilobytes,
                   lines[i].step_ms, lines[i].moves, lines[i].far);
    if (!bench->values.json) printf("\n");
}

static enum status run_kinds(struct nodes_bench *bench) {
    enum status status = read_files(bench);
    if (status) return status;
    bench->logs = calloc((size_t)sparse_layers(bench) * DRAWN_EXPERTS, sizeof *bench->logs);
    check(bench->logs);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        bench->shares[rank] = (struct step_share){.prompt_tokens = PROMPT_TOKENS,
                                                  .attended = PROMPT_TOKENS * MEAN_CONTEXT,
                                                  .slowness = 1};
    if (bench->values.json)
        printf("{\"nodes\":[");
    else
        printf(
            "%d ranks of %u a node, %d redundant experts, %d tokens a rank; for each: balance, kB "
            "of a token and layer between nodes,\nms a step, moves a layer and hour, of them from "
            "another node\n%-16s  %-37s  %s\n",
            RANKS, bench->hardware.gpus_per_node, REDUNDANT, PROMPT_TOKENS, "loads",
            "all ranks alike", "by price, over nodes");
    for (uint32_t kind = 0; kind < DRAWN_KINDS; kind++) {
        struct nodes_line lines[2];
        draw_logs(bench, kind);
        for (int i = 0; i < 2 && !status; i++)
            status = live(bench, i == 1, &lines[i]);
        if (status) return status;
        print_kind(bench, kind, lines);
    }
    if (bench->values.json) printf("]}\n");
    return STATUS_OK;
}

int bench_nodes(int argc, char **argv) {
    static struct nodes_bench bench;
    struct option_result result;
    int exit_code;
    if (!command_begin(&bench_nodes_options, argc, argv, &bench.values, &result, &exit_code))
        return exit_code;
    void *memory = malloc(2 * MEMORY_BYTES);
    if (!memory) {
        error_set(&bench.error, STATUS_NO_MEMORY, "no memory for the clocks");
        return command_failed(&bench_nodes_options, STATUS_NO_MEMORY, &bench.error);
    }
    arena_over(&bench.files, memory, MEMORY_BYTES);
    arena_over(&bench.clocks, (char *)memory + MEMORY_BYTES, MEMORY_BYTES);
    enum status status = run_kinds(&bench);
    free(bench.logs);
    free(memory);
    if (status) return command_failed(&bench_nodes_options, status, &bench.error);
    return command_end(&bench_nodes_options);
}
