/* SPDX-License-Identifier: Apache-2.0
 * fathom bench layer: one MoE layer at real size, part by part, through the engine's own stages and
 * kernels. It runs as one of many ranks with equally many tokens and evenly chosen experts. Each
 * part is compared with the least possible time on this machine, and with DeepSeek's published time
 * on another one. For any GPU the floor is that of an H800, as the published times are an H800's.
 *
 * --table writes the same times over a grid of tokens, contexts and rows per expert, to compute a
 * step's time without running it (simulate/hardware/stage_table.h reads it).
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "bench/bench.h"
#include "bench/harness.h"
#include "bench/layer_run.h"
#include "command/model_run.h"
#include "host/engine/engine.h"
#include "host/process/own_file.h"

#define MIB(bytes) ((double)(bytes) / (1 << 20))
#define CASES_MAX (2 + 2 * MODEL_RUN_SIZES_MAX * MODEL_RUN_SIZES_MAX + MODEL_RUN_SIZES_MAX)

struct layer_values {
    const char *shape, *weights, *activations, *device, *cpu_mask, *phase, *table;
    const char *sweep_tokens, *sweep_prompt, *sweep_context, *sweep_rows;
    uint64_t tokens, context, prompt_tokens, prompt_context, experts, rows, rounds, threads;
    bool best, json;
};

#define AT(field) .offset = offsetof(struct layer_values, field)

static const struct option bench_rows[] = {
    {"shape", OPTION_CHOICE, "v3",
     "the model of the layer; dsv3b is the benchmark shape, tiny a very small one", AT(shape),
     .choices = NAMED_SHAPES_CHOICES},
    {"weights", OPTION_CHOICE, "auto",
     "type of the random weights; auto: as published. int4 and mxfp4: of the routed experts",
     AT(weights), .choices = NAMED_WEIGHTS_CHOICES},
    {"activations", OPTION_CHOICE, "fp8",
     "what is rounded between weights: to FP8 groups, to BF16, nothing; int8: experts' inputs in "
     "four bits to INT8 groups, others to BF16",
     AT(activations), .choices = "fp8|bf16|f32|int8"},
    {"phase", OPTION_CHOICE, "both",
     "one token each of many sequences (decode), a chunk of one prompt, or both in turn", AT(phase),
     .choices = "decode|prompt|both"},
    {"tokens", OPTION_COUNT, "16",
     "decode: tokens of this rank's micro-batch (DeepSeek's trace: 128)", AT(tokens), .minimum = 1,
     .maximum = LIMIT_STEP_ROWS},
    {"context", OPTION_COUNT, "4096", "decode: positions before each token", AT(context),
     .maximum = 0.5 * LIMIT_CONTEXT},
    {"prompt-tokens", OPTION_COUNT, "256", "prompt: tokens of the chunk (DeepSeek's trace: 4096)",
     AT(prompt_tokens), .minimum = 1, .maximum = LIMIT_STEP_TOKENS},
    {"prompt-context", OPTION_COUNT, "0",
     "prompt: positions before the chunk, rounded down to whole KV blocks", AT(prompt_context),
     .maximum = 0.5 * LIMIT_CONTEXT},
    {"experts-here", OPTION_COUNT, "2", "routed experts on this rank", AT(experts), .minimum = 1,
     .maximum = LIMIT_EXPERTS},
    {"rows-per-expert", OPTION_COUNT, "0",
     "rows of each of --experts-here; 0: as if all ranks had as many tokens", AT(rows),
     .maximum = LIMIT_STEP_TOKENS},
    {"rounds", OPTION_COUNT, "5", "repetitions; the result is their median", AT(rounds),
     .minimum = 1, .maximum = LAYER_RUN_ROUNDS_MAX},
    MODEL_RUN_DEVICE(struct layer_values, device),
    {"best", OPTION_FLAG, NULL, "the best round counts, not the median: for a busy machine",
     AT(best)},
    {"cpu-mask", OPTION_CHOICE, "auto", "highest instruction set to use", AT(cpu_mask),
     .choices = KERNEL_LEVEL_CHOICES},
    {"threads", OPTION_COUNT, NULL, "threads; 0: one per CPU", AT(threads), .maximum = 1024},
    {"table", OPTION_TEXT, NULL,
     "measure the grid of the --sweep options, too, and write it to this file as CSV", AT(table)},
    {"sweep-tokens", OPTION_TEXT, "1,4,16,64", "decode tokens in --table's grid", AT(sweep_tokens)},
    {"sweep-prompt", OPTION_TEXT, "64,256", "prompt tokens in --table's grid", AT(sweep_prompt)},
    {"sweep-context", OPTION_TEXT, "64,1024,4096", "positions before the tokens in --table's grid",
     AT(sweep_context)},
    {"sweep-rows", OPTION_TEXT, "1,8,64,256", "rows per expert in --table's grid", AT(sweep_rows)},
    {"json", OPTION_FLAG, NULL, "print one JSON object", AT(json)},
};

const struct option_table bench_layer_options = {
    .command = "bench layer",
    .arguments = "",
    .description = "Times the parts of one transformer layer at real size, with random weights, "
                   "compared with this machine's floor and DeepSeek's published figures.",
    .options = bench_rows,
    .option_count = ARRAY_COUNT(bench_rows),
};

/* The purpose of a case's times. */
enum use {
    USE_PRINT,
    USE_ROW,  /* lines of the table that depend on the tokens only */
    USE_CORE, /* lines of the table that depend on the context as well */
    USE_EXPERTS
};

struct layer_bench {
    struct json_print out;
    struct layer_values values;
    struct layer_run *run;
    struct machine_limits limits;
    struct layer_case cases[CASES_MAX];
    enum use uses[CASES_MAX];
    uint32_t case_count;
    struct model_run_sizes sweep_tokens, sweep_prompt, sweep_context, sweep_rows;
    FILE *table;
    const struct model_device *device; /* NULL: the CPU */
    bool on_device;
    double fp8_flops; /* of a device; the CPU multiplies BF16 values instead */
};

/* NVIDIA's data sheet: HBM3, dense products, and floats outside the tensor cores. */
static const struct machine_limits h800 = {
    .read_bytes = 3.35e12, .bf16_flops = 989e12, .fma_flops = 67e12};
#define H800_FP8_FLOPS 1979e12

/* ---- cases ---- */

static struct layer_case *add_case(struct layer_bench *bench, enum use use, bool prompt,
                                   uint64_t tokens, uint64_t context) {
    const struct shape *shape = layer_run_shape(bench->run);
    check(bench->case_count < CASES_MAX);
    bench->uses[bench->case_count] = use;
    struct layer_case *layer = &bench->cases[bench->case_count++];
    *layer = (struct layer_case){
        .shape = shape,
        .activations = layer_run_activations(bench->run),
        .prompt = prompt,
        .tokens = (uint32_t)tokens,
        .context = (uint32_t)(prompt ? context / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS : context),
        .experts = (uint32_t)bench->values.experts,
        .expert_rows = (uint32_t)bench->values.rows,
    };
    if (!layer->expert_rows)
        layer->expert_rows = (uint32_t)divide_up(tokens * shape->experts_per_token, layer->experts);
    return layer;
}

static void add_printed(struct layer_bench *bench) {
    const struct layer_values *values = &bench->values;
    if (strcmp(values->phase, "prompt") != 0)
        add_case(bench, USE_PRINT, false, values->tokens, values->context);
    if (strcmp(values->phase, "decode") != 0)
        add_case(bench, USE_PRINT, true, values->prompt_tokens, values->prompt_context);
}

static void add_grid(struct layer_bench *bench, bool prompt, const struct model_run_sizes *tokens) {
    for (uint32_t t = 0; t < tokens->count; t++)
        for (uint32_t c = 0; c < bench->sweep_context.count; c++) {
            struct layer_case *layer = add_case(bench, c ? USE_CORE : USE_ROW, prompt,
                                                tokens->values[t], bench->sweep_context.values[c]);
            if (c) layer->expert_rows = 1; /* only the core is needed */
        }
}

/* Adds cases of expert rows alone, with one token, so that little else is computed. */
static void add_swept(struct layer_bench *bench) {
    add_grid(bench, false, &bench->sweep_tokens);
    add_grid(bench, true, &bench->sweep_prompt);
    for (uint32_t i = 0; i < bench->sweep_rows.count; i++)
        add_case(bench, USE_EXPERTS, false, 1, 0)->expert_rows = bench->sweep_rows.values[i];
}

static enum status read_sweeps(struct layer_bench *bench, struct error *error) {
    const struct layer_values *values = &bench->values;
    const struct {
        const char *option, *text;
        uint32_t least, most;
        struct model_run_sizes *out;
    } sweeps[] = {
        {"--sweep-tokens", values->sweep_tokens, 1, LIMIT_STEP_ROWS, &bench->sweep_tokens},
        {"--sweep-prompt", values->sweep_prompt, 1, LIMIT_STEP_TOKENS, &bench->sweep_prompt},
        {"--sweep-context", values->sweep_context, 0, LIMIT_CONTEXT / 2, &bench->sweep_context},
        {"--sweep-rows", values->sweep_rows, 1, LIMIT_STEP_TOKENS, &bench->sweep_rows},
    };
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < ARRAY_COUNT(sweeps); i++)
        status = model_run_sizes_within(sweeps[i].option, sweeps[i].text, sweeps[i].least,
                                        sweeps[i].most, sweeps[i].out, error);
    return status;
}

/* ---- figures ---- */

struct layer_figure { /* of one part, or of several */
    double seconds, flop, bytes, floor_seconds, published_us;
};

/* The published figure, or none if the shape is not theirs. */
static double published(const struct layer_bench *bench, double us) {
    bool theirs = layer_run_shape(bench->run)->fp8 && strcmp(bench->values.shape, "v3") == 0;
    return theirs ? us : 0;
}

static bool is_absorbed(enum stage_part part) {
    return part == PART_ABSORB_QUERY || part == PART_ABSORB_VALUE;
}

/* The floor of a device's kernels (docs/gpu.md). Attention multiplies BF16 values, the router
 * floats, all other parts the weights' type. On a device an FP8 kv_b is stored as BF16 for the
 * absorbed form. */
static double device_floor_of(const struct layer_bench *bench, const struct layer_case *layer,
                              enum stage_part part, const struct layer_work *work) {
    const struct machine_limits *limits = &bench->limits;
    const struct shape *shape = layer->shape;
    bool attends = stage_part_is_of_context(part) || is_absorbed(part);
    bool fp8 = layer->activations == ACTIVATIONS_FP8 && shape->fp8;
    double flops = fp8 && !attends ? bench->fp8_flops : limits->bf16_flops, bytes = work->bytes;
    if (layer->activations == ACTIVATIONS_F32 || part == PART_GATE) flops = limits->fma_flops;
    if (is_absorbed(part) && shape->fp8)
        bytes += (double)shape->heads * shape->kv_rank *
                 (part == PART_ABSORB_QUERY ? shape->nope_dim : shape->value_dim);
    return fmax(work->flop / flops, bytes / limits->read_bytes);
}

/* The time to read the bytes, or to compute the products, whichever is longer. Core attention
 * multiplies floats only if the kernels have no products of BF16 values, or nothing is rounded. */
static double floor_of(const struct layer_bench *bench, const struct layer_case *layer,
                       enum stage_part part, const struct layer_work *work) {
    const struct machine_limits *limits = &bench->limits;
    if (bench->on_device) return device_floor_of(bench, layer, part, work);
    bool pairs = layer_run_kernels(bench->run)->gemm_bf16 && limits->bf16_flops > 0;
    bool core = part == PART_CORE || part == PART_CORE_PROMPT;
    bool rounds = core && pairs && layer->activations != ACTIVATIONS_F32;
    double floats = rounds ? 0 : work->flop_float;
    double rounded = pairs ? limits->bf16_flops : limits->fma_flops;
    double products = floats / limits->fma_flops + (work->flop - floats) / rounded;
    return fmax(products, work->bytes / limits->read_bytes);
}

static struct layer_figure bench_layer_figure_of(const struct layer_bench *bench,
                                                 const struct layer_case *layer,
                                                 const struct layer_times *times,
                                                 enum stage_part part) {
    struct layer_work work = layer_work_of(layer, part);
    return (struct layer_figure){.seconds = times->part[part],
                                 .flop = work.flop,
                                 .bytes = work.bytes,
                                 .floor_seconds = floor_of(bench, layer, part, &work),
                                 .published_us =
                                     published(bench, layer_work_published(layer->prompt, part))};
}

static void add_figure(struct layer_figure *sum, const struct layer_figure *figure) {
    sum->seconds += figure->seconds;
    sum->flop += figure->flop;
    sum->bytes += figure->bytes;
    sum->floor_seconds += figure->floor_seconds;
}

static const struct harness_column layer_columns[] = {
    {"name", "part", -15, 0, 0},
    {"stage", "stage", -9, 0, 0},
    {"us", "us", 12, 1, 0},
    {"flop", "GFLOP", 10, 4, 1e-9},
    {"bytes", "MB", 10, 3, 1e-6},
    {"floor_us", "floor us", 12, 1, 0},
    {"of_floor", "% of it", 7, 0, 100},
    {"published_h800_us", "H800 us*", 10, 0, 0},
};
static const struct harness_table layer_table = {layer_columns, ARRAY_COUNT(layer_columns)};

static void bench_layer_print_figure(struct layer_bench *bench, const char *member,
                                     const char *name, const char *stage,
                                     const struct layer_figure *figure) {
    const char *const texts[] = {name, stage};
    const double numbers[] = {figure->seconds * 1e6,
                              figure->flop,
                              figure->bytes,
                              figure->floor_seconds * 1e6,
                              figure->seconds > 0 ? figure->floor_seconds / figure->seconds : 0,
                              figure->published_us > 0 ? figure->published_us : NAN};
    harness_row(&bench->out, member, &layer_table, texts, numbers);
}

static void print_heading(struct layer_bench *bench, const struct layer_case *layer) {
    struct json_print *out = &bench->out;
    const char *phase = layer->prompt ? "prompt" : "decode";
    json_print_values(
        out, "\"phase\":\"%s\",\"tokens\":%u,\"context\":%u,\"experts\":%u,\"expert_rows\":%u",
        phase, layer->tokens, layer->context, layer->experts, layer->expert_rows);
    json_print_say(out,
                   "\n%s: %u tokens, %u positions before them, %u + %u experts, %u rows each\n",
                   phase, layer->tokens, layer->context, layer->experts,
                   layer->shape->shared_experts, layer->expert_rows);
    harness_titles(out, &layer_table);
}

static void print_sums(struct layer_bench *bench, const struct layer_case *layer,
                       const struct layer_times *times) {
    json_print_open(&bench->out, "sums", '[');
    for (const struct layer_sum *sum = layer_sums; sum->name[0]; sum++) {
        struct layer_figure total = {
            .published_us = published(bench, layer->prompt ? sum->prompt_us : sum->decode_us)};
        for (int part = (int)sum->first; part <= (int)sum->last; part++) {
            if (!layer_work_runs(layer, (enum stage_part)part)) continue;
            struct layer_figure figure =
                bench_layer_figure_of(bench, layer, times, (enum stage_part)part);
            add_figure(&total, &figure);
        }
        bench_layer_print_figure(bench, NULL, sum->name, "sum", &total);
    }
    json_print_close(&bench->out);
}

static void bench_layer_print_case(struct layer_bench *bench, const struct layer_case *layer,
                                   const struct layer_times *times) {
    struct layer_figure layer_sum = {.seconds = 0};
    json_print_open(&bench->out, NULL, '{');
    print_heading(bench, layer);
    json_print_open(&bench->out, "parts", '[');
    for (int i = 0; i < STAGE_PART_COUNT; i++) {
        enum stage_part part = (enum stage_part)i;
        if (!layer_work_runs(layer, part)) continue;
        struct layer_figure figure = bench_layer_figure_of(bench, layer, times, part);
        add_figure(&layer_sum, &figure);
        bench_layer_print_figure(bench, NULL, stage_part_name(part),
                                 overlap_stage_name(stage_part_of(part)), &figure);
    }
    json_print_close(&bench->out);
    print_sums(bench, layer, times);
    layer_sum.seconds = times->layer;
    bench_layer_print_figure(bench, "layer", "layer", "all", &layer_sum);
    json_print_close(&bench->out);
}

/* ---- the table ---- */

static bool is_written(enum use use, enum stage_part part) {
    if (stage_part_is_in(part, STAGE_PHASE_EXPERTS)) return use == USE_EXPERTS;
    return use == USE_ROW || (use == USE_CORE && stage_part_is_of_context(part));
}

/* The load of other processes on the machine, in the last minute. */
static double load_average(void) {
    double load;
    return getloadavg(&load, 1) == 1 ? load : 0;
}

static const char *weights_name(const struct layer_bench *bench) {
    return named_shapes_weights_name(named_shapes_weights_of(layer_run_shape(bench->run)));
}

static const char *engine_name(const struct layer_bench *bench) {
    return bench->on_device ? bench->values.device : "CPU";
}

static void bench_layer_write_head(const struct layer_bench *bench) {
    const struct layer_values *values = &bench->values;
    fprintf(bench->table,
            "# fathom bench layer: %s, kernels %s, %u threads, load average %.2f; shape %s, %s "
            "weights, %s activations\n"
            "# one layer of one rank. tokens: of the rank's micro-batch; context: positions before "
            "them; expert_rows: of each of the `experts` routed experts here\n"
            "# us: microseconds, %s of %llu rounds; flop: two for each multiply-add of a "
            "product; bytes: weights, activations and KV, each once. 0: does not matter\n"
            "phase,part,tokens,context,expert_rows,experts,us,flop,bytes\n",
            engine_name(bench), layer_run_engine(bench->run), bench->limits.threads, load_average(),
            values->shape, weights_name(bench), values->activations,
            values->best ? "best" : "median", (unsigned long long)values->rounds);
}

static void bench_layer_write_lines(const struct layer_bench *bench, enum use use,
                                    const struct layer_case *layer,
                                    const struct layer_times *times) {
    for (int i = 0; i < STAGE_PART_COUNT; i++) {
        enum stage_part part = (enum stage_part)i;
        if (!layer_work_runs(layer, part) || !is_written(use, part)) continue;
        /* a prompt's tokens that attend to chosen rows do the work of answers */
        if (layer->prompt && (part == PART_CORE || is_absorbed(part))) continue;
        struct layer_work work = layer_work_of(layer, part);
        bool experts = stage_part_is_in(part, STAGE_PHASE_EXPERTS);
        fprintf(bench->table, "%s,%s,%u,%u,%u,%u,%.3f,%.0f,%.0f\n",
                experts         ? "experts"
                : layer->prompt ? "prompt"
                                : "decode",
                stage_part_name(part), experts ? 0 : layer->tokens,
                stage_part_is_of_context(part) ? layer->context : 0,
                experts ? layer->expert_rows : 0, experts ? layer->experts : 0,
                times->part[part] * 1e6, work.flop, work.bytes);
    }
}

/* ---- the run ---- */

static enum status bench_layer_measure_limits(struct layer_bench *bench, struct error *error) {
    struct team *team;
    if (bench->on_device) {
        bench->limits = h800;
        bench->fp8_flops = H800_FP8_FLOPS;
        return STATUS_OK;
    }
    enum status status = team_open((uint32_t)bench->values.threads, &team, error);
    if (status != STATUS_OK) return status;
    status = machine_limits_measure(team, false, &bench->limits, error);
    team_close(team);
    return status;
}

/* Reports the needed memory. Refuses to take more than there is: filling pages would push other
 * processes out of memory. */
static enum status report_memory(const struct layer_bench *bench, struct error *error) {
    struct layer_run_bytes bytes = layer_run_bytes(bench->run, bench->cases, bench->case_count);
    uint64_t all = bytes.weights + bytes.source + bytes.kv + bytes.room;
    fprintf(stderr,
            "memory: about %.0f MiB: weights %.0f, their source %.0f, KV %.0f, "
            "activations %.0f\n",
            MIB(all), MIB(bytes.weights), MIB(bytes.source), MIB(bytes.kv), MIB(bytes.room));
    /* The device itself reports a lack of memory. */
    bool is_gpu = strcmp(bench->values.device, "cuda") == 0;
    if (is_gpu || all <= machine_limits_memory()) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY,
                     "needs about %.0f MiB of memory, %.0f are available: lower tokens, context or "
                     "--experts-here",
                     MIB(all), MIB(machine_limits_memory()));
}

static enum status bench_layer_prepare(struct layer_bench *bench, struct error *error) {
    const struct layer_values *values = &bench->values;
    struct layer_run_options options = {.shape = values->shape,
                                        .weights = named_shapes_find_weights(values->weights),
                                        .activations = values->activations,
                                        .cpu_mask = values->cpu_mask,
                                        .device = bench->device,
                                        .threads = (uint32_t)values->threads,
                                        .experts = (uint32_t)values->experts};
    enum status status = read_sweeps(bench, error);
    if (status == STATUS_OK) status = layer_run_open(&options, &bench->run, error);
    if (status != STATUS_OK) return status;
    add_printed(bench);
    if (values->table) add_swept(bench);
    status = report_memory(bench, error);
    if (status != STATUS_OK) return status;
    status = bench_layer_measure_limits(bench, error);
    if (status != STATUS_OK) return status;
    return layer_run_prepare(bench->run, bench->cases, bench->case_count, error);
}

static void bench_layer_print_head(struct layer_bench *bench) {
    const struct layer_values *values = &bench->values;
    struct json_print *out = &bench->out;
    json_print_values(out,
                      "\"engine\":\"%s\",\"kernels\":\"%s\",\"threads\":%u,"
                      "\"load_average\":%.2f,\"shape\":\"%s\",\"weights\":\"%s\","
                      "\"activations\":\"%s\"",
                      values->device, layer_run_engine(bench->run), bench->limits.threads,
                      load_average(), values->shape, weights_name(bench), values->activations);
    json_print_say(out,
                   "%s, kernels %s, %u threads, load average %.2f; shape %s, %s weights, %s "
                   "activations\n",
                   engine_name(bench), layer_run_engine(bench->run), bench->limits.threads,
                   load_average(), values->shape, weights_name(bench), values->activations);
    if (bench->on_device)
        json_print_say(out, "floors: those of an H800, %.4g FLOP/s FP8\n", bench->fp8_flops);
    harness_limits(out, "limits", &bench->limits, false);
    if (bench->on_device && strcmp(values->device, "cuda") != 0)
        json_print_say(out, "A CPU stands in for the device: these times mean nothing.\n");
}

static void print_foot(const struct layer_bench *bench) {
    json_print_say(
        &bench->out,
        "\n* DeepSeek-V3 on an H800, another machine: decode with 128 tokens, 4,096 positions, 2 "
        "experts with 512 rows\n  each (profile-data, decode.json); prompt with 4,096 tokens "
        "(profile-data, train.json, forward). Dispatch and\n  combine travel, 187 and 394 us "
        "there; here nothing does. Floor: bytes over reading, or products over multiply-adds.\n");
    if (bench->on_device)
        json_print_say(&bench->out,
                       "Times are the device's. What experts are sent, and their results, pass the "
                       "host's memory: send, expert_input,\nexpert_result and combine hold those "
                       "copies.\n");
}

static enum status run_cases(struct layer_bench *bench, struct error *error) {
    const struct layer_rounds rounds = {(uint32_t)bench->values.rounds, bench->values.best};
    enum status status = STATUS_OK;
    bench->out = json_print_begin(bench->values.json);
    bench_layer_print_head(bench);
    json_print_open(&bench->out, "cases", '[');
    if (bench->table) bench_layer_write_head(bench);
    for (uint32_t i = 0; status == STATUS_OK && i < bench->case_count; i++) {
        const struct layer_case *layer = &bench->cases[i];
        struct layer_times times;
        status = layer_run_measure(bench->run, layer, &rounds, &times, error);
        if (status != STATUS_OK) break;
        if (bench->uses[i] == USE_PRINT)
            bench_layer_print_case(bench, layer, &times);
        else
            bench_layer_write_lines(bench, bench->uses[i], layer, &times);
    }
    if (status != STATUS_OK) return status;
    print_foot(bench);
    json_print_close(&bench->out);
    json_print_close(&bench->out);
    return STATUS_OK;
}

static enum status bench_layer_run_all(struct layer_bench *bench, struct error *error) {
    const char *path = bench->values.table;
    enum status status = engine_find_device(bench->values.device, &bench->device, error);
    bench->on_device = strcmp(bench->values.device, "cpu") != 0;
    if (!bench->on_device) bench->device = NULL;
    if (status != STATUS_OK) return status;
    if (path && !(bench->table = own_file_report(path))) /* before anything that takes long */
        return error_set(error, STATUS_IO, "%.300s: %s", path, strerror(errno));
    status = bench_layer_prepare(bench, error);
    if (status == STATUS_OK) status = run_cases(bench, error);
    if (!bench->table) return status;
    bool failed = ferror(bench->table) != 0;
    failed |= fclose(bench->table) != 0;
    if (status != STATUS_OK || !failed) return status;
    return error_set(error, STATUS_IO, "%.300s: cannot be written: %s", path, strerror(errno));
}

int bench_layer(void *given, const struct option_result *result) {
    static struct layer_bench bench;
    struct error error = {.text = ""};
    bench.values = *(const struct layer_values *)given;
    enum status status = bench_layer_run_all(&bench, &error);
    layer_run_close(bench.run);
    return command_end(status, &error);
}
