/* SPDX-License-Identifier: Apache-2.0
 * fathom bench calibrate: what the engine, the serving plane, KV transfers and the KV storage take
 * on this machine, as a hardware file for the twin (twin/hardware/README.md). Steps are measured in
 * processes of their own, one for each number of ranks (this program again, with --rows); the gap
 * between steps and the gateway's time on a server; transfers and the disk by the subjects of
 * `bench` that measure them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/format.h"
#include "base/tree.h"
#include "bench/bench.h"
#include "bench/calibrate_service.h"
#include "bench/calibrate_steps.h"
#include "bench/child.h"
#include "bench/machine_limits.h"
#include "command/model_run.h"
#include "command/rank_job.h"
#include "compute/model/kv_pages.h"
#include "compute/model/model.h"

#define WORDS 40 /* of a child's command line */
#define JSON_BYTES ((size_t)16 << 20)

struct calibrate_values {
    struct model_run_values run;
    struct rank_job_values job;
    uint64_t kv_memory, context, rows_max, tokens_max, rounds, answers;
    const char *out, *dir;
    bool rows;
};

#define AT(field) .offset = offsetof(struct calibrate_values, field)

static const struct option calibrate_rows[] = {
    MODEL_RUN_OPTIONS,
    RANK_JOB_OPTIONS(struct calibrate_values),
    {.name = "out",
     .type = OPTION_TEXT,
     .help = "the hardware file to write; standard output if not given",
     AT(out)},
    {.name = "kv-memory",
     .type = OPTION_BYTES,
     .fallback = "1GiB",
     .help = "memory for a unit's KV cache, for all its ranks together, as the server will have it",
     AT(kv_memory)},
    {.name = "context",
     .type = OPTION_COUNT,
     .fallback = "1024",
     .help = "positions of the longest contexts that are timed",
     .minimum = 2 * KV_BLOCK_TOKENS,
     .maximum = LIMIT_CONTEXT,
     AT(context)},
    {.name = "max-batch-rows",
     .type = OPTION_COUNT,
     .fallback = "64",
     .help = "answers in a step of each rank at most",
     .minimum = 1,
     .maximum = LIMIT_STEP_ROWS,
     AT(rows_max)},
    {.name = "max-batch-tokens",
     .type = OPTION_COUNT,
     .fallback = "512",
     .help = "tokens in a step of each rank at most",
     .minimum = 128,
     .maximum = LIMIT_STEP_TOKENS,
     AT(tokens_max)},
    {.name = "rounds",
     .type = OPTION_COUNT,
     .fallback = "25",
     .help = "times that each shape of step is timed, of which the median counts",
     .minimum = 4,
     .maximum = CALIBRATE_ROUNDS_MAX,
     AT(rounds)},
    {.name = "answers",
     .type = OPTION_COUNT,
     .fallback = "60",
     .help = "answers of which the serving plane's times are medians",
     .minimum = 4,
     .maximum = 10000,
     AT(answers)},
    {.name = "dir",
     .type = OPTION_TEXT,
     .fallback = ".",
     .help = "a directory on the disk of the KV storage",
     AT(dir)},
    {.name = "rows",
     .type = OPTION_FLAG,
     .help = "time steps of --ranks ranks alone, and print one JSON object",
     AT(rows)},
};

const struct option_table bench_calibrate_options = {
    .command = "bench calibrate",
    .arguments = "",
    .description = "Measures this machine into a hardware file, by which `fathom sim` times steps.",
    .options = calibrate_rows,
    .option_count = ARRAY_COUNT(calibrate_rows),
};

/* ---- steps of one number of ranks: --rows ---- */

static void print_step(const struct calibrate_step *step, uint32_t ranks, bool last) {
    struct calibrate_share share = calibrate_shapes_share(&step->shape);
    printf("  [%u,%u,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
           ",%.1f,%.1f,%.1f]%s\n",
           ranks, step->shape.one_busy ? 1 : ranks, share.prompt_tokens, share.attended,
           share.cached, share.answer_rows, share.answer_tokens, share.context, step->us, step->low,
           step->high, last ? "" : ",");
}

static enum status time_rows(const struct calibrate_values *values, struct rank_group *group,
                             const char *kernels, struct error *error) {
    static struct calibrate_step steps[CALIBRATE_SHAPES_MAX];
    struct model *model = rank_group_model(group);
    struct calibrate_limits limits = {.ranks = rank_group_count(group),
                                      .rows_max = (uint32_t)values->rows_max,
                                      .tokens_max = (uint32_t)values->tokens_max,
                                      .context_max = (uint32_t)values->context};
    uint32_t count, room = model_page_count(model) / limits.rows_max * KV_BLOCK_TOKENS;
    if (limits.context_max > model_shape(model)->context_max)
        limits.context_max = model_shape(model)->context_max;
    if (limits.context_max > room) limits.context_max = room;
    if (room < 2 * KV_BLOCK_TOKENS)
        return error_set(error, STATUS_INVALID,
                         "--kv-memory: %u sequences need %u pages on each rank, and there are %u",
                         limits.rows_max, 2 * limits.rows_max, model_page_count(model));
    enum status status = calibrate_steps_run(group, values->run.schedule, &limits,
                                             (uint32_t)values->rounds, steps, &count, error);
    if (status) return status;
    printf("{\"kernels\":\"%s\",\"numerics\":\"%s\",\"weight_bytes\":%" PRIu64
           ",\"page_count\":%u,\"page_bytes\":%" PRIu64 ",\"layers\":%u,\"width\":%u,\"vocab\":%u,"
           "\n \"rows\":[\n",
           kernels, model_numerics_id(model), model_weight_bytes(model), model_page_count(model),
           model_page_bytes(model), model_shape(model)->layers, model_kv_pages(model)->width,
           model_shape(model)->vocab);
    for (uint32_t i = 0; i < count; i++)
        print_step(&steps[i], limits.ranks, i + 1 == count);
    printf("]}\n");
    return STATUS_OK;
}

static enum status measure_rows(const struct calibrate_values *values, struct error *error) {
    struct model_options options = {0};
    const struct kernels *kernels;
    struct rank_group *group;
    enum status status = model_run_options(&values->run, &options, error);
    if (!status) status = kernels_select(options.level, &kernels, error);
    if (!status) status = rank_job_options(&values->job, &options, error);
    if (status) return status;
    options.kv_bytes = values->kv_memory / values->job.ranks;
    options.step_tokens_max = (uint32_t)values->tokens_max;
    options.step_rows_max = (uint32_t)values->rows_max;
    status = rank_group_open_engines(&options, &group, error);
    if (status) return status;
    status = time_rows(values, group, kernels->name, error);
    rank_group_close(group);
    return status;
}

/* ---- children ---- */

struct calibration {
    const struct calibrate_values *values;
    char own[400];
    void *memory;
    struct arena arena;
    const struct tree *alone, *ranks; /* what --rows says; `ranks` NULL: one rank alone */
    struct calibrate_service service;
    double transfer_gbps, transfer_us, disk_gbps;
};

struct words {
    const char *argv[WORDS + 1];
    char texts[WORDS][400];
    uint32_t count;
};

static void add(struct words *words, const char *text) {
    check(words->count < WORDS);
    format_text(words->texts[words->count], sizeof words->texts[0], "%s", text);
    words->argv[words->count] = words->texts[words->count];
    words->count++;
}

static void add_option(struct words *words, const char *name, const char *value) {
    if (!value) return;
    add(words, name);
    add(words, value);
}

static void add_number(struct words *words, const char *name, uint64_t value) {
    char text[32];
    format_text(text, sizeof text, "%llu", (unsigned long long)value);
    add_option(words, name, text);
}

static void add_engine(struct words *words, const struct calibrate_values *values) {
    add_option(words, "--model", values->run.model);
    add_option(words, "--activations", values->run.activations);
    add_option(words, "--cpu-mask", values->run.cpu_mask);
    add_option(words, "--schedule", values->run.schedule);
    add_number(words, "--threads", values->run.threads);
    add_number(words, "--kv-memory", values->kv_memory);
    add_number(words, "--max-batch-rows", values->rows_max);
    add_number(words, "--max-batch-tokens", values->tokens_max);
}

static enum status run_child(struct calibration *all, const struct words *words,
                             const struct tree **tree_out, struct error *error) {
    struct bytes text;
    enum status status = child_run(words->argv, &text, error);
    if (status) return status;
    status = tree_parse(&all->arena, text, words->argv[2], tree_out, error);
    free((void *)(uintptr_t)text.data);
    return status;
}

static enum status run_rows(struct calibration *all, uint64_t ranks, const struct tree **tree_out,
                            struct error *error) {
    struct words words = {.count = 0};
    add(&words, all->own);
    add(&words, "bench");
    add(&words, "calibrate");
    add(&words, "--rows");
    add_engine(&words, all->values);
    add_number(&words, "--ranks", ranks);
    add_number(&words, "--context", all->values->context);
    add_number(&words, "--rounds", all->values->rounds);
    return run_child(all, &words, tree_out, error);
}

static double number(const struct tree *object, const char *name) {
    double value = 0;
    bool found = tree_get_number(tree_member(object, name), &value);
    check(found); /* our own program's word */
    return value;
}

static enum status run_service(struct calibration *all, struct error *error) {
    struct words words = {.count = 0};
    add(&words, all->own);
    add(&words, "serve");
    add_number(&words, "--port", 0);
    add_option(&words, "--mtp", "off");
    add_engine(&words, all->values);
    return calibrate_service_run(words.argv, (uint32_t)all->values->answers,
                                 (uint32_t)number(all->alone, "vocab"), &all->service, error);
}

/* A block's time, and the rate of many: of the second layout, real blocks. */
static enum status run_transfer(struct calibration *all, struct error *error) {
    struct words words = {.count = 0};
    const struct tree *tree;
    add(&words, all->own);
    add(&words, "bench");
    add(&words, "transfer");
    add(&words, "--json");
    enum status status = run_child(all, &words, &tree, error);
    if (status) return status;
    const struct tree *cases = tree_member(tree, "cases"), *least = tree_at(cases, 0);
    for (size_t i = 0; i < tree_count(cases); i++) {
        const struct tree *one = tree_at(cases, i);
        double rate = number(one, "bytes") * 8e-9 / number(tree_member(one, "transfer"), "seconds");
        if (rate > all->transfer_gbps) all->transfer_gbps = rate;
    }
    all->transfer_us = number(tree_member(least, "transfer"), "seconds") * 1e6 -
                       number(least, "bytes") * 8e-3 / all->transfer_gbps;
    return STATUS_OK;
}

static enum status run_disk(struct calibration *all, struct error *error) {
    struct words words = {.count = 0};
    const struct tree *tree;
    add(&words, all->own);
    add(&words, "bench");
    add(&words, "cache");
    add(&words, "--json");
    add_option(&words, "--dir", all->values->dir);
    add_option(&words, "--size", "256MiB");
    add_number(&words, "--index-blocks", 0);
    add_number(&words, "--layers", (uint64_t)number(all->alone, "layers"));
    add_number(&words, "--width", (uint64_t)number(all->alone, "width"));
    enum status status = run_child(all, &words, &tree, error);
    if (!status) all->disk_gbps = number(tree, "read_mb_s") * 8e-3;
    return status;
}

/* ---- the file ---- */

/* The time of the row with just this share; 0: there is none. */
static double step_us(const struct tree *measured, double prompt, double rows, double context) {
    const struct tree *all = tree_member(measured, "rows");
    for (size_t i = 0; i < tree_count(all); i++) {
        double values[11];
        for (size_t j = 0; j < ARRAY_COUNT(values); j++)
            if (!tree_get_number(tree_at(tree_at(all, i), j), &values[j])) return 0;
        if (values[2] == prompt && values[4] == 0 && values[5] == rows && values[7] == context)
            return values[8];
    }
    return 0;
}

static double at_least_0(double value) {
    return value > 0 ? value : 0;
}

static void write_rows(FILE *file, const struct tree *measured) {
    const struct tree *all = tree_member(measured, "rows");
    for (size_t i = 0; i < tree_count(all); i++) {
        fprintf(file, "  - [");
        for (size_t j = 0; j < 9; j++) {
            double value = 0;
            check(tree_get_number(tree_at(tree_at(all, i), j), &value));
            fprintf(file, "%s%.12g", j ? ", " : "", value);
        }
        fprintf(file, "]\n");
    }
}

static void write_service(FILE *file, const struct calibration *all) {
    const struct calibrate_service *service = &all->service;
    double token = step_us(all->alone, 0, 1, KV_BLOCK_TOKENS);
    double prompt = step_us(all->alone, CALIBRATE_SERVICE_PROMPT, 0, 0);
    fprintf(file,
            "step_gap_us: {value: %.5g, source: \"%.5g us between an answer's tokens "
            "(%.5g..%.5g, quartiles of %" PRIu64 " answers) less the step's %.5g\"}\n",
            at_least_0(service->token_us - token), service->token_us, service->low_token_us,
            service->high_token_us, all->values->answers, token);
    fprintf(file,
            "request_us: {value: %.5g, source: \"%.5g us from a request to its first token "
            "(%.5g..%.5g) less the step's %.5g; the way back is in it\"}\n",
            at_least_0(service->first_us - prompt), service->first_us, service->low_first_us,
            service->high_first_us, prompt);
    fprintf(file, "token_us: {value: 0, source: \"in request_us and step_gap_us\"}\n");
}

static void write_file(FILE *file, const struct calibration *all) {
    const struct tree *alone = all->alone;
    struct bytes kernels, numerics;
    char model[256], day[32];
    time_t now = time(NULL);
    double weights = number(alone, "weight_bytes"), pages = number(alone, "page_count");
    strftime(day, sizeof day, "%Y-%m-%d", gmtime(&now));
    check(tree_get_string(tree_member(alone, "kernels"), &kernels) &&
          tree_get_string(tree_member(alone, "numerics"), &numerics));
    model_run_name(all->values->run.model ? all->values->run.model : "tiny-r1", NULL, model);
    fprintf(file, "# SPDX-License-Identifier: Apache-2.0\n# Written by `fathom bench calibrate`.\n");
    fprintf(file, "name: cpu-here\ngpus_per_node: %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
    fprintf(file, "hbm_bytes: {value: %.0f, source: \"weights and KV pages of a rank alone\"}\n",
            weights + pages * number(alone, "page_bytes"));
    fprintf(file, "nic_gbps: {value: %.5g, source: \"fathom bench transfer, the fastest\"}\n",
            all->transfer_gbps);
    fprintf(file,
            "network_latency_us: {value: %.5g, source: \"fathom bench transfer, the least\"}\n",
            at_least_0(all->transfer_us));
    fprintf(file, "storage_gbps: {value: %.5g, source: \"fathom bench cache, cold reads\"}\n",
            all->disk_gbps);
    write_service(file, all);
    fprintf(file,
            "steps:\n  source: \"fathom bench calibrate, %s, kernels %.*s, numerics %.*s, "
            "%" PRIu64 " threads a rank (0: all), medians of %" PRIu64 "\"\n"
            "  model: %s\n  weight_bytes: %.0f\n  page_count: %.0f\n"
            "  columns: [ranks, busy, prompt_tokens, attended, cached, answer_rows, answer_tokens, "
            "context, us]\n  rows:\n",
            day, (int)kernels.count, kernels.data, (int)numerics.count, numerics.data,
            all->values->run.threads, all->values->rounds, model, weights, pages);
    write_rows(file, alone);
    if (all->ranks) write_rows(file, all->ranks);
}

/* The median row's width of the middle half of its times, in percent. */
static double spread(const struct tree *measured) {
    const struct tree *all = tree_member(measured, "rows");
    static double widths[CALIBRATE_SHAPES_MAX];
    uint32_t count = (uint32_t)tree_count(all);
    check(count >= 1 && count <= ARRAY_COUNT(widths));
    for (uint32_t i = 0; i < count; i++) {
        double us, low, high;
        const struct tree *row = tree_at(all, i);
        check(tree_get_number(tree_at(row, 8), &us) && tree_get_number(tree_at(row, 9), &low) &&
              tree_get_number(tree_at(row, 10), &high));
        widths[i] = 100 * (high - low) / us;
    }
    return machine_limits_median(widths, count);
}

static void say_steps(const struct tree *measured, uint64_t ranks, double seconds) {
    fprintf(stderr, "%zu shapes of steps on %" PRIu64
                    " ranks in %.0f s; half of a shape's times lie within %.1f %%\n",
            tree_count(tree_member(measured, "rows")), ranks, seconds, spread(measured));
}

static enum status measure(struct calibration *all, struct error *error) {
    double began = machine_limits_now();
    uint64_t ranks = all->values->job.ranks;
    enum status status = run_rows(all, 1, &all->alone, error);
    if (status) return status;
    say_steps(all->alone, 1, machine_limits_now() - began);
    began = machine_limits_now();
    if (ranks > 1) status = run_rows(all, ranks, &all->ranks, error);
    if (status) return status;
    if (ranks > 1) say_steps(all->ranks, ranks, machine_limits_now() - began);
    status = run_service(all, error);
    if (!status) status = run_transfer(all, error);
    return status ? status : run_disk(all, error);
}

static enum status write_out(const struct calibration *all, struct error *error) {
    const char *path = all->values->out;
    FILE *file = path ? fopen(path, "w") : stdout;
    if (!file) return error_set(error, STATUS_IO, "%s: cannot be written", path);
    write_file(file, all);
    bool whole = !ferror(file);
    if (path) whole = fclose(file) == 0 && whole;
    return whole ? STATUS_OK : error_set(error, STATUS_IO, "%s: cannot be written", path);
}

static enum status calibrate(const struct calibrate_values *values, struct error *error) {
    struct calibration all = {.values = values, .memory = malloc(JSON_BYTES)};
    ssize_t own = readlink("/proc/self/exe", all.own, sizeof all.own - 1);
    enum status status = STATUS_OK;
    if (own <= 0) status = error_set(error, STATUS_IO, "/proc/self/exe: cannot be read");
    if (!all.memory) status = error_set(error, STATUS_NO_MEMORY, "no memory for the figures");
    arena_over(&all.arena, all.memory, all.memory ? JSON_BYTES : 0);
    if (!status) status = measure(&all, error);
    if (!status) status = write_out(&all, error);
    free(all.memory);
    return status;
}

int bench_calibrate(int argc, char **argv) {
    static struct calibrate_values values;
    struct option_result result;
    struct error error = {.text = ""};
    int exit_code;
    if (!command_begin(&bench_calibrate_options, argc, argv, &values, &result, &exit_code))
        return exit_code;
    if (values.rows &&
        rank_job_begin(&bench_calibrate_options, &values.job, &exit_code))
        return exit_code;
    enum status status =
        values.rows ? measure_rows(&values, &error) : calibrate(&values, &error);
    return status ? command_failed(&bench_calibrate_options, status, &error)
                  : command_end(&bench_calibrate_options);
}
