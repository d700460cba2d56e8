/* SPDX-License-Identifier: Apache-2.0
 * fathom bench hardware: the twin's clock of steps (simulate/hardware) beside what was published of
 * real ones: DeepSeek's traces and profiles, its online service, and SGLang's 96 H100. Hardware and
 * model are the binary's own files. What an anchor's own data fitted says so; a miss says why.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "bench/bench.h"
#include "bench/machine_limits.h"
#include "host/process/yaml_tree.h"
#include "simulate/hardware/builtin.h"
#include "simulate/hardware/step_clock.h"

#define MEMORY_BYTES ((size_t)64 << 20)
#define TIMED_STEPS 200
#define DRIFTED_NS 3600000000000 /* an hour: before anybody looks at the new loads */

struct hardware_bench_values {
    bool json;
};

#define AT(field) .offset = offsetof(struct hardware_bench_values, field)

static const struct option hardware_bench_rows[] = {
    {.name = "json", .type = OPTION_FLAG, .help = "print one JSON object", AT(json)},
};

const struct option_table bench_hardware_options = {
    .command = "bench hardware",
    .arguments = "",
    .description = "The twin's times of steps beside published ones.",
    .options = hardware_bench_rows,
    .option_count = sizeof hardware_bench_rows / sizeof *hardware_bench_rows,
};

enum anchor_unit { LAYER_US, LAYERS_MS, STEP_MS, TOKENS_GPU, TOKENS_NODE, TOKENS_USER };

static const char *const unit_names[] = {
    [LAYER_US] = "us a micro-batch and layer",
    [LAYERS_MS] = "ms, layers alone",
    [STEP_MS] = "ms a step",
    [TOKENS_GPU] = "tokens/s a GPU",
    [TOKENS_NODE] = "tokens/s a node",
    [TOKENS_USER] = "tokens/s a user",
};

struct anchor {
    const char *name, *hardware;
    uint32_t ranks, redundant;
    double skew;
    uint32_t requests, tokens_each; /* answers; or */
    uint32_t prompt_tokens;         /* of a rank, in prompts of 2 x context tokens */
    double context, accepted;       /* accepted: of drafts */
    double drift; /* of the loads' variance that is new since experts were placed for them */
    enum anchor_unit unit;
    double published;
    const char *remark;
};

#define PROFILE "h800", 128, 0, 0, 128, 2, 0, 4096, 0.6, 0
#define ONLINE "h800", 144, 32, 0.6, 88, 1, 0, 4989, 0, 0
#define PREFILL "h800", 32, 32, 0, 0, 0, 16384, 2048.5, 0, 0
#define SGLANG(skew, mean, drift) "h100", 32, 32, skew, 0, 0, 16384, mean, 0, drift
/* Ant measured SGLang's EPLB online: mean over largest stayed above 0.70. So much drift gives 0.72.
 * The figure is not of these runs, and was chosen among 0.82, 0.76, 0.72 and 0.67 with their errors
 * in sight: at 0.82 the 4K run is 13 % off, at 0.67 the 1K run -10 %. */
#define STALE 0.13

static const struct anchor anchors[] = {
    {"DeepSeek decode trace, EP128", PROFILE, LAYER_US, 715.7, "fitted: expert rates, issue"},
    {"DeepSeek decode profile, EP128", PROFILE, LAYERS_MS, 87.32, "fitted, as the trace"},
    {"DeepSeek decode profile, 60 % of drafts", PROFILE, TOKENS_GPU, 2325, "fitted: step overhead"},
    {"DeepSeek prefill profile, EP32", PREFILL, STEP_MS, 2090, "prediction"},
    {"DeepSeek prefill profile, EP32", PREFILL, TOKENS_GPU, 7839, "prediction"},
    {"DeepSeek online, 88 requests, 4,989", ONLINE, TOKENS_USER, 21, "prediction; published 20-22"},
    {"DeepSeek online, 88 requests, 4,989", ONLINE, TOKENS_NODE, 14800, "prediction"},
    {"SGLang prefill 4K, perfect balance", SGLANG(0, 2048.5, 0), TOKENS_NODE, 59337, "prediction"},
    {"SGLang prefill 1K, own EPLB", SGLANG(1.1, 512.5, STALE), TOKENS_NODE, 57674,
     "no prediction: balance 0.72 was chosen, Ant has 0.70 and more"},
    {"SGLang prefill 2K, own EPLB", SGLANG(1.1, 1024.5, STALE), TOKENS_NODE, 54543, "as 1K"},
    {"SGLang prefill 4K, own EPLB", SGLANG(1.1, 2048.5, STALE), TOKENS_NODE, 50302, "as 1K"},
    {"SGLang decode EP72, 256 x 2K", "h100", 72, 32, 1.1, 256, 1, 0, 2050, 0, 0, TOKENS_NODE, 22282,
     "prediction; no time between steps is taken"},
    {"SGLang decode EP72, 128 x 4K, 2 tokens", "h100", 72, 32, 1.1, 128, 2, 0, 4096, 0.6, 0,
     TOKENS_NODE, 17373, "prediction, 60 % of drafts accepted (assumed)"},
};

struct hardware_bench {
    struct hardware_bench_values values;
    struct arena files, clocks;
    struct step_share shares[LIMIT_RANKS];
    double clock_us; /* what the clock itself costs for a step of the last anchor */
    struct error error;
};

static enum status read_files(struct hardware_bench *bench, const struct anchor *anchor,
                              struct hardware *hardware, struct model_figures *model) {
    const char *names[] = {anchor->hardware, "deepseek-v3"};
    const struct tree *trees[2];
    arena_clear(&bench->files);
    for (int i = 0; i < 2; i++) {
        struct bytes text = builtin_text(i ? BUILTIN_MODEL : BUILTIN_HARDWARE, bytes_of(names[i]));
        enum status status =
            yaml_tree_parse(&bench->files, text, names[i], &trees[i], &bench->error);
        if (status) return status;
    }
    enum status status = hardware_read(&bench->files, trees[0], names[0], hardware, &bench->error);
    return status ? status : model_figures_read(trees[1], names[1], model, &bench->error);
}

static double value_of(const struct anchor *anchor, const struct step_time *time) {
    double seconds = (double)time->ns * 1e-9, layers_s = (double)time->layers_ns * 1e-9;
    double each = anchor->tokens_each > 1 ? 1 + anchor->accepted : 1;
    double tokens = anchor->prompt_tokens ? anchor->prompt_tokens : anchor->requests * each;
    switch (anchor->unit) {
    case LAYER_US:
        return layers_s * 1e6 / 61 / 2;
    case LAYERS_MS:
        return layers_s * 1e3;
    case STEP_MS:
        return seconds * 1e3;
    case TOKENS_GPU:
        return tokens / seconds;
    case TOKENS_NODE:
        return tokens / seconds * 8;
    case TOKENS_USER:
        return each / seconds;
    }
    return 0;
}

static enum status run_anchor(struct hardware_bench *bench, const struct anchor *anchor,
                              double *value_out, double *balance_out) {
    struct hardware hardware;
    struct model_figures model;
    struct step_clock *clock;
    struct step_time time;
    enum overlap_kind overlap =
        anchor->prompt_tokens ? OVERLAP_PREFILL_DUAL_BATCH : OVERLAP_DECODE_FIVE_STAGE;
    enum status status = read_files(bench, anchor, &hardware, &model);
    if (status) return status;
    const struct step_clock_options options = {.hardware = &hardware,
                                               .model = &model,
                                               .ranks = anchor->ranks,
                                               .ranks_per_node = hardware.gpus_per_node,
                                               .redundant_experts = anchor->redundant,
                                               .balance_experts = anchor->redundant > 0,
                                               .expert_skew = anchor->skew,
                                               .expert_drift = anchor->drift,
                                               .seed = 1};
    arena_clear(&bench->clocks);
    status = step_clock_open(&bench->clocks, &options, &clock, &bench->error);
    if (status) return status;
    for (uint32_t rank = 0; rank < anchor->ranks; rank++)
        bench->shares[rank] =
            (struct step_share){.prompt_tokens = anchor->prompt_tokens,
                                .attended = (uint64_t)(anchor->prompt_tokens * anchor->context),
                                .answer_rows = anchor->requests,
                                .answer_tokens = anchor->requests * anchor->tokens_each,
                                .context = (uint64_t)(anchor->requests * anchor->context),
                                .slowness = 1};
    time = step_clock_step(clock, bench->shares, overlap, 0);
    double begin_s = machine_limits_processor_now();
    for (int i = 0; i < TIMED_STEPS; i++)
        time = step_clock_step(clock, bench->shares, overlap, anchor->drift > 0 ? DRIFTED_NS : 0);
    bench->clock_us = (machine_limits_processor_now() - begin_s) / TIMED_STEPS * 1e6;
    *value_out = value_of(anchor, &time);
    *balance_out = step_clock_balance_mean(clock);
    return STATUS_OK;
}

static void print_anchor(const struct hardware_bench *bench, const struct anchor *anchor,
                         bool first, double value, double balance) {
    double off = value / anchor->published - 1;
    if (bench->values.json)
        printf(
            "%s{\"anchor\":\"%s\",\"unit\":\"%s\",\"published\":%g,\"model\":%.6g,\"error\":%.5f,"
            "\"balance\":%.4f,\"clock_us\":%.2f,\"remark\":\"%s\"}",
            first ? "" : ",", anchor->name, unit_names[anchor->unit], anchor->published, value, off,
            balance, bench->clock_us, anchor->remark);
    else
        printf("%-40s %9.6g %9.6g %+6.1f %% %7.3f %6.1f us  %s; %s\n", anchor->name,
               anchor->published, value, off * 100, balance, bench->clock_us,
               unit_names[anchor->unit], anchor->remark);
}

static enum status run_all(struct hardware_bench *bench) {
    if (bench->values.json)
        printf("{\"anchors\":[");
    else
        printf("%-40s %9s %9s %8s %7s %9s\n", "anchor", "published", "model", "error", "balance",
               "clock");
    for (size_t i = 0; i < sizeof anchors / sizeof *anchors; i++) {
        double value, balance;
        enum status status = run_anchor(bench, &anchors[i], &value, &balance);
        if (status) return status;
        print_anchor(bench, &anchors[i], i == 0, value, balance);
    }
    if (bench->values.json) printf("]}\n");
    return STATUS_OK;
}

int bench_hardware(int argc, char **argv) {
    static struct hardware_bench bench;
    struct option_result result;
    int exit_code;
    if (!command_begin(&bench_hardware_options, argc, argv, &bench.values, &result, &exit_code))
        return exit_code;
    void *memory = malloc(2 * MEMORY_BYTES);
    if (!memory) {
        error_set(&bench.error, STATUS_NO_MEMORY, "no memory for the clocks");
        return command_failed(&bench_hardware_options, STATUS_NO_MEMORY, &bench.error);
    }
    arena_over(&bench.files, memory, MEMORY_BYTES);
    arena_over(&bench.clocks, (char *)memory + MEMORY_BYTES, MEMORY_BYTES);
    enum status status = run_all(&bench);
    free(memory);
    if (status) return command_failed(&bench_hardware_options, status, &bench.error);
    return command_end(&bench_hardware_options);
}
