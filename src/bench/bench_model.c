/* SPDX-License-Identifier: Apache-2.0
 * fathom bench model: prefill, time to first token and decode of a whole model, as medians,
 * compared with the machine's limits measured in the same run. Tokens are random and differ between
 * sequences, as speed depends on the chosen experts.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/check.h"
#include "base/number.h"
#include "base/random.h"
#include "bench/bench.h"
#include "bench/harness.h"
#include "command/model_run.h"
#include "command/rank_job.h"
#include "compute/model/kv_pages.h"

#define RUNS_MAX 99

struct bench_model_values {
    struct model_run_values run;
    struct rank_job_values job;
    uint64_t prompt, after, context, gen, runs, step_tokens;
    const char *batch;
    bool json;
};

#define AT(field) .offset = offsetof(struct bench_model_values, field)

static const struct option bench_rows[] = {
    MODEL_RUN_OPTIONS,
    RANK_JOB_OPTIONS(struct bench_model_values),
    {"prompt", OPTION_COUNT, "512", "tokens of each prompt", AT(prompt), .minimum = 1,
     .maximum = 0.5 * LIMIT_CONTEXT},
    {"after", OPTION_COUNT, "0",
     "tokens before the timed prompt, computed but not timed, as after a cache hit", AT(after),
     .maximum = 0.5 * LIMIT_CONTEXT},
    {"context", OPTION_COUNT, "0",
     "tokens before the generated ones, computed but not timed; 0: the prompt", AT(context),
     .maximum = 0.5 * LIMIT_CONTEXT},
    {"gen", OPTION_COUNT, "128", "tokens generated for each prompt", AT(gen), .minimum = 1,
     .maximum = 65536},
    {"batch", OPTION_TEXT, "1,8,32", "sequences that decode together: one measurement each",
     AT(batch)},
    {"runs", OPTION_COUNT, "3", "repetitions; the result is their median", AT(runs), .minimum = 1,
     .maximum = RUNS_MAX},
    {"step-tokens", OPTION_COUNT, "512", "tokens computed in one step of a prompt", AT(step_tokens),
     .minimum = 64, .maximum = LIMIT_STEP_TOKENS},
    {"json", OPTION_FLAG, NULL, "print one JSON object", AT(json)},
};

const struct option_table bench_model_options = {
    .command = "bench model",
    .arguments = "",
    .description =
        "Times prefill and decode of a model, as fractions of the limits of this machine.",
    .options = bench_rows,
    .option_count = ARRAY_COUNT(bench_rows),
};

struct model_bench {
    struct json_print out;
    struct bench_model_values values;
    struct model_run_sizes batches;
    struct solo *solo;
    const struct shape *shape;
    const struct kernels *kernels;
    struct machine_limits limits;
    float *logits;    /* [batches.largest][vocab] */
    uint32_t *tokens; /* [context_max] */
    uint32_t depth;   /* tokens of a sequence before the generated ones */
    uint32_t context_max;
    double load_seconds, prefill_seconds;
    uint64_t load_rss_bytes, peak_rss_bytes; /* the latter before the limits are measured */
    double step_seconds[MODEL_RUN_SIZES_MAX];
};

/* Operations per token (two per multiply-add), without core attention. */
static double linear_operations(const struct shape *shape) {
    double d = shape->hidden, heads = shape->heads, query = heads * shape_query_dim(shape);
    double total = (double)shape->vocab * d;
    for (uint32_t layer = 0; layer < shape->layers; layer++) {
        total += shape->q_rank ? (d + query) * shape->q_rank : d * query;
        total += d * shape_kv_width(shape);
        total += heads * (shape->nope_dim + shape->value_dim) * shape->kv_rank;
        total += heads * shape->value_dim * d;
        double width = shape->dense_width;
        if (shape_layer_is_moe(shape, layer)) {
            width =
                (double)(shape->experts_per_token + shape->shared_experts) * shape->expert_width;
            total += d * shape->experts;
        }
        total += 3 * d * width;
    }
    return 2 * total;
}

/* Operations of a prompt: all tokens' linears (the head once), scores and values over what precedes
 * each token, and the expanded keys and values of the `after` tokens before the prompt. */
static double prefill_operations(const struct shape *shape, double tokens, double after) {
    double head = 2.0 * shape->vocab * shape->hidden;
    double core = 2.0 * shape->layers * shape->heads * (shape_query_dim(shape) + shape->value_dim) *
                  (after + (tokens + 1) / 2);
    double expanded = 2.0 * shape->layers * shape->heads * (shape->nope_dim + shape->value_dim) *
                      shape->kv_rank * after;
    return tokens * (linear_operations(shape) - head + core) + head + expanded;
}

static double peak_flops(const struct model_bench *bench) {
    bool bf16 = bench->kernels->gemm_bf16 && bench->limits.bf16_flops > 0;
    return bf16 ? bench->limits.bf16_flops : bench->limits.fma_flops;
}

static void bench_model_draw_tokens(struct model_bench *bench, uint32_t sequence) {
    for (uint32_t i = 0; i < bench->context_max; i++)
        bench->tokens[i] = (uint32_t)(random_uniform(sequence, 0, i) * bench->shape->vocab);
}

static enum status measure_prefill(struct model_bench *bench, struct error *error) {
    double seconds[RUNS_MAX];
    uint32_t prompt = (uint32_t)bench->values.prompt;
    uint32_t step_tokens = (uint32_t)bench->values.step_tokens;
    uint32_t after = (uint32_t)bench->values.after;
    bench_model_draw_tokens(bench, 0);
    /* A first step, untimed, touches the memory that steps use. */
    uint32_t first = after ? after : prompt < step_tokens ? prompt : step_tokens;
    enum status warm = solo_prefill(bench->solo, 0, bench->tokens, first, 0, bench->logits, error);
    if (warm != STATUS_OK) return warm;
    for (uint32_t run = 0; run < bench->values.runs; run++) {
        solo_truncate(bench->solo, 0, after);
        double start = machine_limits_now();
        enum status status =
            solo_prefill(bench->solo, 0, bench->tokens + after, prompt, 0, bench->logits, error);
        if (status != STATUS_OK) return status;
        seconds[run] = machine_limits_now() - start;
    }
    bench->prefill_seconds = stats_median(seconds, (uint32_t)bench->values.runs);
    return STATUS_OK;
}

static enum status fill_prompts(struct model_bench *bench, uint32_t from, uint32_t to,
                                struct error *error) {
    for (uint32_t sequence = from; sequence < to; sequence++) {
        bench_model_draw_tokens(bench, sequence);
        solo_reset(bench->solo, sequence);
        enum status status = solo_prefill(bench->solo, sequence, bench->tokens, bench->depth, 0,
                                          bench->logits, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

/* Seconds of a step, as the median over runs of each run's mean. */
static enum status measure_decode(struct model_bench *bench, uint32_t batch, double *seconds_out,
                                  struct error *error) {
    static struct solo_row rows[LIMIT_STEP_ROWS];
    static uint32_t next[LIMIT_STEP_ROWS];
    double seconds[RUNS_MAX];
    for (uint32_t run = 0; run < bench->values.runs; run++) {
        for (uint32_t i = 0; i < batch; i++)
            solo_truncate(bench->solo, i, bench->depth);
        double start = machine_limits_now();
        for (uint32_t step = 0; step < bench->values.gen; step++) {
            for (uint32_t i = 0; i < batch; i++) {
                next[i] = (uint32_t)(random_uniform(i, 1, step) * bench->shape->vocab);
                rows[i] = (struct solo_row){.sequence = i,
                                            .form = TOKEN_GENERATED,
                                            .tokens = &next[i],
                                            .token_count = 1,
                                            .logits_count = 1};
            }
            enum status status = solo_step(bench->solo, rows, batch, bench->logits, NULL, error);
            if (status != STATUS_OK) return status;
        }
        seconds[run] = (machine_limits_now() - start) / (double)bench->values.gen;
    }
    *seconds_out = stats_median(seconds, (uint32_t)bench->values.runs);
    return STATUS_OK;
}

static enum status bench_model_measure(struct model_bench *bench, struct error *error) {
    /* After the measurement of the prompt, sequence 0 is as fill_prompts leaves it. */
    uint32_t filled = bench->depth == bench->values.prompt && !bench->values.after;
    enum status status = measure_prefill(bench, error);
    for (uint32_t i = 0; status == STATUS_OK && i < bench->batches.count; i++) {
        uint32_t batch = bench->batches.values[i];
        if (batch > filled) {
            status = fill_prompts(bench, filled, batch, error);
            filled = batch;
        }
        if (status == STATUS_OK)
            status = measure_decode(bench, batch, &bench->step_seconds[i], error);
    }
    return status;
}

static enum status bench_model_measure_limits(struct model_bench *bench, struct error *error) {
    struct team *team;
    enum status status = team_open((uint32_t)bench->values.run.threads, &team, error);
    if (status != STATUS_OK) return status;
    status = machine_limits_measure(team, false, &bench->limits, error);
    team_close(team);
    return status;
}

static uint64_t peak_rss_bytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}

/* The model's own KV bytes. The largest batch touches all of them. */
static uint64_t bench_model_kv_bytes(const struct model_bench *bench) {
    return model_kv_pages(solo_model(bench->solo))->mapped_bytes;
}

/* Peak memory of the process, divided by the bytes that it needs. */
static double peak_share(const struct model_bench *bench) {
    return (double)bench->peak_rss_bytes /
           (double)(model_weight_bytes(solo_model(bench->solo)) + bench_model_kv_bytes(bench));
}

static enum status bench_model_open_model(struct model_bench *bench, struct error *error) {
    struct solo_options options;
    enum status status =
        rank_job_solo_options(&bench->values.run, &bench->values.job, &options, error);
    if (status == STATUS_OK) status = kernels_select(options.model.level, &bench->kernels, error);
    if (status != STATUS_OK) return status;
    options.sequences = bench->batches.largest;
    bench->depth = (uint32_t)(bench->values.context ? bench->values.context : bench->values.prompt);
    bench->context_max = max_u32(bench->depth + (uint32_t)bench->values.gen,
                                 (uint32_t)(bench->values.after + bench->values.prompt));
    options.context_max = bench->context_max;
    options.model.step_tokens_max =
        max_u32((uint32_t)bench->values.step_tokens, bench->batches.largest);
    double start = machine_limits_now();
    status = model_run_open(&options, &bench->solo, error);
    if (status != STATUS_OK) return status;
    bench->load_seconds = machine_limits_now() - start;
    bench->load_rss_bytes = peak_rss_bytes();
    bench->shape = model_shape(solo_model(bench->solo));
    bench->logits = malloc((size_t)bench->batches.largest * bench->shape->vocab * sizeof(float));
    bench->tokens = malloc(options.context_max * sizeof(uint32_t));
    if (bench->logits && bench->tokens) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for the logits");
}

/* The share of the memory's bandwidth that a prompt of one step uses: weights and KV rows once. */
static double prefill_of_read(const struct model_bench *bench) {
    struct model *model = solo_model(bench->solo);
    double rows = (double)(bench->values.after + bench->values.prompt) * bench->shape->layers;
    double bytes = model_step_bytes(model, (uint32_t)bench->values.prompt) +
                   rows * (double)model_kv_pages(model)->row_bytes;
    return bytes / bench->prefill_seconds / bench->limits.read_bytes;
}

/* KV rows that a decode step reads in total: in every layer, as many as there are tokens. */
static double decode_rows(const struct model_bench *bench, uint32_t index) {
    double tokens = bench->depth + (double)bench->values.gen / 2;
    return tokens * bench->batches.values[index] * bench->shape->layers;
}

/* The shares of the memory's bandwidth and of the arithmetic that a decode step uses: weights and
 * KV rows once, linears and absorbed attention. */
static double decode_of_read(const struct model_bench *bench, uint32_t index) {
    double row_bytes = (double)model_kv_pages(solo_model(bench->solo))->row_bytes;
    double bytes = model_step_bytes(solo_model(bench->solo), bench->batches.values[index]) +
                   decode_rows(bench, index) * row_bytes;
    return bytes / bench->step_seconds[index] / bench->limits.read_bytes;
}

static double decode_of_flops(const struct model_bench *bench, uint32_t index) {
    double row_operations =
        2.0 * bench->shape->heads * (shape_kv_width(bench->shape) + bench->shape->kv_rank);
    double operations = linear_operations(bench->shape) * bench->batches.values[index] +
                        decode_rows(bench, index) * row_operations;
    return operations / bench->step_seconds[index] / peak_flops(bench);
}

static void print_head(struct model_bench *bench) {
    struct json_print *out = &bench->out;
    const struct model *model = solo_model(bench->solo);
    json_print_values(out,
                      "\"kernels\":\"%s\",\"numerics\":\"%s\",\"threads\":%u,"
                      "\"load_seconds\":%.4g,\"weight_bytes\":%lu,\"kv_bytes\":%lu,"
                      "\"load_peak_rss_bytes\":%lu,\"peak_rss_bytes\":%lu",
                      bench->kernels->name, model_numerics_id(model), bench->limits.threads,
                      bench->load_seconds, model_weight_bytes(model), bench_model_kv_bytes(bench),
                      bench->load_rss_bytes, bench->peak_rss_bytes);
    json_print_say(out, "kernels %s, numerics %s, %u threads\n", bench->kernels->name,
                   model_numerics_id(model), bench->limits.threads);
    harness_limits(out, "limits", &bench->limits, false);
    json_print_say(out,
                   "loaded in %.2f s; weights %.1f MiB, KV memory %.1f; peak RSS %.1f MiB loading, "
                   "%.1f running: %.2f x weights and KV memory\n",
                   bench->load_seconds, (double)model_weight_bytes(model) / (1 << 20),
                   (double)bench_model_kv_bytes(bench) / (1 << 20),
                   (double)bench->load_rss_bytes / (1 << 20),
                   (double)bench->peak_rss_bytes / (1 << 20), peak_share(bench));
}

static void print_results(struct model_bench *bench) {
    static const struct harness_column prefill_columns[] = {
        {"tokens", "prompt tokens", 13, 0, 0},       {"tokens_per_second", "tokens/s", 10, 1, 0},
        {"ttft_seconds", "first token s", 13, 3, 0}, {"of_flops", "% of arithmetic", 15, 0, 100},
        {"of_read", "% of bandwidth", 14, 0, 100},
    };
    static const struct harness_column decode_columns[] = {
        {"batch", "decode batch", 13, 0, 0},       {"tokens_per_second", "tokens/s", 10, 1, 0},
        {"step_seconds", "step ms", 13, 2, 1e3},   {"of_flops", "% of arithmetic", 15, 0, 100},
        {"of_read", "% of bandwidth", 14, 0, 100},
    };
    static const struct harness_table prefill = {prefill_columns, ARRAY_COUNT(prefill_columns)};
    static const struct harness_table decode = {decode_columns, ARRAY_COUNT(decode_columns)};
    struct json_print *out = &bench->out;
    double prompt = (double)bench->values.prompt, seconds = bench->prefill_seconds;
    double operations = prefill_operations(bench->shape, prompt, (double)bench->values.after);
    bool one_step = prompt <= (double)bench->values.step_tokens;
    const double numbers[] = {prompt, prompt / seconds, seconds,
                              operations / seconds / peak_flops(bench),
                              one_step ? prefill_of_read(bench) : NAN};
    harness_number(out, "after", (double)bench->values.after);
    if (bench->values.after)
        json_print_say(out, "after %lu tokens:\n", (unsigned long)bench->values.after);
    harness_titles(out, &prefill);
    harness_row(out, "prefill", &prefill, NULL, numbers);
    harness_number(out, "context", bench->depth);
    json_print_open(out, "decode", '[');
    json_print_say(out, "after %u tokens:\n", bench->depth);
    harness_titles(out, &decode);
    for (uint32_t i = 0; i < bench->batches.count; i++)
        harness_row(out, NULL, &decode, NULL,
                    (const double[]){bench->batches.values[i],
                                     bench->batches.values[i] / bench->step_seconds[i],
                                     bench->step_seconds[i], decode_of_flops(bench, i),
                                     decode_of_read(bench, i)});
    json_print_close(out);
}

int bench_model(void *given, const struct option_result *result) {
    struct model_bench bench = {.logits = NULL};
    struct error error = {.text = ""};
    int exit_code;
    bench.values = *(const struct bench_model_values *)given;
    if (rank_job_begin(RANK_JOB_DRIVEN, &bench.values.job, &exit_code)) return exit_code;
    enum status status =
        model_run_sizes_read("--batch", bench.values.batch, &bench.batches, &error);
    if (status == STATUS_OK) status = bench_model_open_model(&bench, &error);
    if (status == STATUS_OK) status = bench_model_measure(&bench, &error);
    bench.peak_rss_bytes = peak_rss_bytes();
    if (status == STATUS_OK)
        status = rank_job_write_trace(&bench.values.job, solo_group(bench.solo), &error);
    if (status == STATUS_OK) status = bench_model_measure_limits(&bench, &error);
    if (status == STATUS_OK) {
        bench.out = json_print_begin(bench.values.json);
        print_head(&bench);
        print_results(&bench);
        rank_job_print_json(&bench.values.job, solo_group(bench.solo), &bench.out);
        json_print_close(&bench.out);
    }
    solo_close(bench.solo);
    free(bench.logits);
    free(bench.tokens);
    return command_end(status, &error);
}
