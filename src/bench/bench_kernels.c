/* SPDX-License-Identifier: Apache-2.0
 * fathom bench kernels: each kernel at the shapes of the benchmark model (hidden 1024, q_lora 384,
 * kv_lora 512, experts 512 wide, 16 heads), as medians (or best runs), compared with what the
 * machine can do at most.
 *
 * Matrix products run on all threads over copies of the weights that together exceed the caches, as
 * in a model's layers (--warm: over one copy). The others run on one thread on cached data, as a
 * team member runs them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/number.h"
#include "bench/bench.h"
#include "bench/harness.h"
#include "command/model_run.h"
#include "compute/kernels/kernels.h"
#include "compute/kernels/team.h"
#include "compute/model/linear.h"

#define RUNS_MAX 101
#define POOL_BYTES ((size_t)128 << 20)
#define M_MAX 512
#define CHANNELS_MAX 2048
#define OUTPUTS_MAX 8192
#define VECTOR_SECONDS 0.002 /* of one run */

struct kernels_values {
    const char *cpu_mask, *filter, *rows;
    uint64_t threads, runs;
    bool best, json, warm;
};

#define AT(field) .offset = offsetof(struct kernels_values, field)

static const struct option bench_rows[] = {
    {"best", OPTION_FLAG, NULL, "the best run counts, not the median: for a busy machine",
     AT(best)},
    {"cpu-mask", OPTION_CHOICE, "auto", "use no kernels above this level", AT(cpu_mask),
     .choices = KERNEL_LEVEL_CHOICES},
    {"filter", OPTION_TEXT, NULL, "measure only kernels with this in their name", AT(filter)},
    {"json", OPTION_FLAG, NULL, "print one JSON object", AT(json)},
    {"rows", OPTION_TEXT, "1,8,64,512", "rows of a matrix product's input: one measurement each",
     AT(rows)},
    {"runs", OPTION_COUNT, "7", "runs; the result is their median", AT(runs), .minimum = 1,
     .maximum = RUNS_MAX},
    {"threads", OPTION_COUNT, "0", "threads; 0: one for each CPU", AT(threads), .maximum = 1024},
    {"warm", OPTION_FLAG, NULL,
     "matrix products read the same weights each time, which stay in a cache if they fit",
     AT(warm)},
};

const struct option_table bench_kernels_options = {
    .command = "bench kernels",
    .arguments = "",
    .description = "Times every kernel at the shapes of the benchmark model, as fractions of the "
                   "limits of this machine.",
    .options = bench_rows,
    .option_count = ARRAY_COUNT(bench_rows),
};

struct kernels_bench {
    struct json_print out;
    struct kernels_values values;
    struct model_run_sizes rows;
    const struct kernels *kernels;
    struct team *team;
    struct machine_limits one, all;
    char *pool;   /* [POOL_BYTES] random weights */
    float *x, *y; /* [M_MAX][CHANNELS_MAX], [M_MAX][OUTPUTS_MAX] */
    /* [CHANNELS_MAX / 128][M_MAX + 1][128] x as models prepare it for all but F32 weights */
    uint16_t *blocks;
    float *scales; /* of FP8 weights */
};

/* One line of results. A fraction is relative to `limits`, and left out if `limits` is NULL. */
struct kernels_line {
    const char *kernel, *type;
    uint32_t outputs, channels, m;
    double seconds, operations, bytes; /* of one call */
    const struct machine_limits *limits;
    double flops_limit;
    bool warm; /* its inputs are cached */
};

static const struct harness_column kernels_columns[] = {
    {"kernel", "kernel", -18, 0, 0},
    {"type", "type", -8, 0, 0},
    {"outputs", "outputs", 7, 0, 0},
    {"channels", "channels", 8, 0, 0},
    {"m", "m", 5, 0, 0},
    {"warm", NULL, 0, HARNESS_FLAG, 0},
    {"seconds", "time us", 11, 2, 1e6},
    {"gflops", "GFLOP/s", 9, 1, 0},
    {"gbytes", "GB/s", 8, 2, 0},
    {"of_flops", "% of flops", 10, 0, 100},
    {"of_read", "% of read", 9, 0, 100},
};
static const struct harness_table kernels_table = {kernels_columns, ARRAY_COUNT(kernels_columns)};

static void print_line(struct kernels_bench *bench, const struct kernels_line *line) {
    double flops = line->operations / line->seconds, bytes = line->bytes / line->seconds;
    const char *const texts[] = {line->kernel, line->type};
    const double numbers[] = {line->outputs,
                              line->channels,
                              line->m,
                              line->warm,
                              line->seconds,
                              flops * 1e-9,
                              bytes * 1e-9,
                              line->limits ? flops / line->flops_limit : NAN,
                              line->limits ? bytes / line->limits->read_bytes : NAN};
    harness_row(&bench->out, NULL, &kernels_table, texts, numbers);
}

static bool bench_kernels_wanted(const struct kernels_bench *bench, const char *name) {
    return !bench->values.filter || strstr(name, bench->values.filter);
}

static double seconds_of(const struct kernels_bench *bench, double *times) {
    struct stats_spread spread = stats_spread(times, bench->values.runs, 0);
    return bench->values.best ? spread.low : spread.median;
}

static void bench_product(struct kernels_bench *bench, const char *name, enum weight_type type,
                          uint32_t outputs, uint32_t channels, uint32_t m) {
    static const char *const type_names[WEIGHT_TYPE_COUNT] = {
        "fp8",  "bf16", "f32",  "int4-32", "int4-128", "mxfp4",
        "q8_0", "q4_0", "q4_k", "q5_k",    "q6_k"};
    const bool groups = weight_type_group(type) || weight_type_blocks(type);
    /* FP8's scales are few, and one copy is enough; those of groups lie behind the codes */
    const size_t data_bytes = packed_data_bytes(type, outputs, channels);
    const size_t bytes = data_bytes + (groups ? packed_scale_bytes(type, outputs, channels) : 0);
    uint32_t copies = bench->values.warm ? 1 : (uint32_t)(POOL_BYTES / bytes);
    uint32_t panels = packed_panels(outputs);
    double operations = 2.0 * outputs * channels * m, times[RUNS_MAX];
    uint32_t calls = (uint32_t)(64e6 / (double)bytes), more = (uint32_t)(4e8 / operations);
    calls = 1 + (calls < more || m > 8 ? more : calls);
    for (uint32_t run = 0; run < bench->values.runs; run++) {
        double start = machine_limits_now();
        for (uint32_t call = 0; call < calls; call++) {
            const char *copy = bench->pool + (run + call) % copies * bytes;
            struct packed_matrix weights = {
                .type = type,
                .rows = outputs,
                .cols = channels,
                .data = copy,
                .scales = bench->scales,
                .group_scales = groups ? (const uint16_t *)(copy + data_bytes) : NULL};
            struct matmul job = {.weights = &weights,
                                 .x = bench->x,
                                 .x_stride = channels,
                                 .x_blocks = type == WEIGHT_F32 ? NULL : bench->blocks,
                                 .x_block_stride = (m + 1) * QUANT_GROUP,
                                 .y = bench->y,
                                 .y_stride = panels * MATMUL_PANEL,
                                 .m = m,
                                 .x_is_bf16 = true};
            linear_run(bench->kernels, bench->team, &job, 1);
        }
        times[run] = (machine_limits_now() - start) / calls;
    }
    bool pairs = bench->kernels->gemm_bf16 && !weight_type_is_float(type);
    struct kernels_line line = {
        .kernel = name,
        .type = type_names[type],
        .outputs = outputs,
        .channels = channels,
        .m = m,
        .seconds = seconds_of(bench, times),
        .operations = operations,
        .bytes = (double)bytes,
        .limits = &bench->all,
        .flops_limit = pairs ? bench->all.bf16_flops : bench->all.fma_flops,
        .warm = bench->values.warm,
    };
    print_line(bench, &line);
}

static void bench_products(struct kernels_bench *bench) {
    static const struct {
        const char *name;
        uint32_t outputs, channels;
    } shapes[] = {
        {"q_a", 384, 1024},         {"q_b", 3072, 384},   {"kv_a", 576, 1024},
        {"kv_b", 4096, 512},        {"o", 1024, 2048},    {"expert_gate", 512, 1024},
        {"expert_down", 1024, 512}, {"head", 8192, 1024},
    };
    for (enum weight_type type = 0; type < WEIGHT_TYPE_COUNT; type++)
        for (size_t s = 0; s < ARRAY_COUNT(shapes); s++)
            for (uint32_t i = 0; i < bench->rows.count; i++)
                if (bench_kernels_wanted(bench, shapes[s].name) && (type != WEIGHT_F32 || s == 2) &&
                    ((!weight_type_group(type) && !weight_type_blocks(type)) ||
                     strstr(shapes[s].name, "expert")))
                    bench_product(bench, shapes[s].name, type, shapes[s].outputs,
                                  shapes[s].channels, bench->rows.values[i]);
}

/* m x outputs = m x channels times channels x outputs, or a vector kernel over `channels`. */
enum small_kernel {
    SCORES,
    VALUES,
    LATENT_SCORES,
    LATENT_VALUES,
    BF16_SCORES, /* from here to RMSNORM: for BF16 values */
    BF16_VALUES,
    BF16_LATENT_SCORES,
    BF16_LATENT_VALUES,
    RMSNORM,
    SILU,
    EXP_SUM,
    ROUND,
    QUANTIZE,
    ADD_SCALED,
    ADD_SUM,
    TRANSPOSE,
    SOFTMAX_BF16
};

static const struct small {
    const char *name;
    enum small_kernel kernel;
    uint32_t outputs, channels, m;
} smalls[] = {
    {"gemm scores", SCORES, 64, 192, 64},
    {"gemm values", VALUES, 128, 64, 64},
    {"gemm absorbed", LATENT_SCORES, 64, 576, 16},
    {"gemm latents", LATENT_VALUES, 512, 64, 16},
    {"gemm_bf16 scores", BF16_SCORES, 64, 192, 64},
    {"gemm_bf16 values", BF16_VALUES, 128, 64, 64},
    {"gemm_bf16 absorbed", BF16_LATENT_SCORES, 16, 576, 64},
    {"gemm_bf16 latents", BF16_LATENT_VALUES, 512, 64, 16},
    {"rmsnorm", RMSNORM, 1, 1024, 1},
    {"silu_multiply", SILU, 1, 512, 1},
    {"exp_sum", EXP_SUM, 1, 64, 1},
    {"round_bf16", ROUND, 1, 1024, 1},
    {"quantize_e4m3", QUANTIZE, 1, 1024, 1},
    {"add_scaled", ADD_SCALED, 1, 1024, 1},
    {"add_sum_bf16", ADD_SUM, 2, 1024, 1},
    {"transpose", TRANSPOSE, 64, 192, 1},
    {"softmax_bf16", SOFTMAX_BF16, 1, KV_BLOCK_TOKENS, 1},
};

static bool is_bf16_product(const struct small *small) {
    return small->kernel >= BF16_SCORES && small->kernel < RMSNORM;
}

static bool has_small(const struct kernels_bench *bench, const struct small *small) {
    return bench->kernels->gemm_bf16 || (!is_bf16_product(small) && small->kernel != SOFTMAX_BF16);
}

static void call_bf16_product(const struct kernels_bench *bench, const struct small *small) {
    static const uint32_t rows[] = {[BF16_ROWS] = 1, [BF16_PAIRS] = 2, [BF16_FOURS] = 4};
    enum bf16_layout layout = small->kernel == BF16_SCORES          ? BF16_PAIRS
                              : small->kernel == BF16_LATENT_SCORES ? bench->kernels->few_columns
                                                                    : BF16_ROWS;
    struct gemm_bf16 job = {.layout = layout,
                            .a = (const uint16_t *)bench->x,
                            .a_stride = small->channels,
                            .b = (const uint16_t *)(bench->x + 65536),
                            .b_stride = (size_t)small->outputs * rows[layout],
                            .c = bench->y,
                            .c_stride = (size_t)small->outputs * 2,
                            .m = small->m,
                            .n = small->outputs,
                            .k = small->channels};
    bench->kernels->gemm_bf16(&job);
}

static void call_small(const struct kernels_bench *bench, const struct small *small) {
    const struct kernels *kernels = bench->kernels;
    uint32_t n = small->channels;
    float *y = bench->y;
    const float *x = bench->x;
    struct gemm gemm = {.a = x,
                        .a_stride = n,
                        .b = bench->x + 65536,
                        .b_stride = small->outputs,
                        .c = y,
                        .c_stride = small->outputs,
                        .m = small->m,
                        .n = small->outputs,
                        .k = n};
    switch (small->kernel) {
    case RMSNORM:
        kernels->rmsnorm(y, x, x, n, 1e-6f);
        break;
    case SILU:
        kernels->silu_multiply(y, x, x + n, n);
        break;
    case EXP_SUM:
        kernels->exp_sum(y, x, 0.1f, 1.0f, n);
        break;
    case ROUND:
        kernels->round_bf16(y, x, n);
        break;
    case QUANTIZE:
        kernels->quantize_e4m3(y, y + n, x, n, false);
        break;
    case ADD_SCALED:
        kernels->add_scaled(y, x, 1e-9f, n);
        break;
    case ADD_SUM: /* two rows, for a token's experts in one group */
        kernels->add_sum_bf16(
            y, (const uint16_t *const[]){(const uint16_t *)x, (const uint16_t *)x + n},
            (const float[]){1e-9f, 1e-9f}, 2, n);
        break;
    case TRANSPOSE:
        kernels->transpose(y, small->outputs, x, n, small->outputs, n);
        break;
    case BF16_SCORES:
    case BF16_VALUES:
    case BF16_LATENT_SCORES:
    case BF16_LATENT_VALUES:
        call_bf16_product(bench, small);
        break;
    case SOFTMAX_BF16:
        kernels->softmax_bf16((uint16_t *)y, x, n, 0.1f, &(float){0}, &(float){0});
        break;
    default:
        kernels->gemm(&gemm);
        break;
    }
}

static void bench_small(struct kernels_bench *bench, const struct small *small) {
    double times[RUNS_MAX], seconds = 0;
    uint32_t calls = 1;
    for (; seconds < VECTOR_SECONDS; calls *= 2) { /* calibration and warm-up */
        double start = machine_limits_now();
        for (uint32_t call = 0; call < calls; call++)
            call_small(bench, small);
        seconds = machine_limits_now() - start;
    }
    for (uint32_t run = 0; run < bench->values.runs; run++) {
        double start = machine_limits_now();
        for (uint32_t call = 0; call < calls; call++)
            call_small(bench, small);
        times[run] = (machine_limits_now() - start) / calls;
    }
    bool gemm = small->kernel < RMSNORM, pairs = is_bf16_product(small);
    struct kernels_line line = {
        .kernel = small->name,
        .type = pairs ? "bf16" : "f32",
        .outputs = small->outputs,
        .channels = small->channels,
        .m = small->m,
        .seconds = seconds_of(bench, times),
        .operations = gemm ? 2.0 * small->outputs * small->channels * small->m : 0,
        .bytes = (pairs ? 2.0 : 4.0) * small->outputs * small->channels,
        .limits = gemm ? &bench->one : NULL,
        .flops_limit = pairs ? bench->one.bf16_flops : bench->one.fma_flops,
        .warm = true,
    };
    print_line(bench, &line);
}

/* Random weights: moderate numbers in every type, without NaN codes. */
static enum status bench_kernels_take_memory(struct kernels_bench *bench, struct error *error) {
    bench->pool = aligned_alloc(64, POOL_BYTES);
    bench->x = aligned_alloc(64, sizeof(float) * M_MAX * CHANNELS_MAX);
    bench->blocks = aligned_alloc(64, sizeof(uint16_t) * (M_MAX + 1) * CHANNELS_MAX);
    bench->y = aligned_alloc(64, sizeof(float) * M_MAX * OUTPUTS_MAX);
    bench->scales = aligned_alloc(64, sizeof(float) * 4096);
    if (!bench->pool || !bench->x || !bench->blocks || !bench->y || !bench->scales)
        return error_set(error, STATUS_NO_MEMORY, "no room for %zu MiB of weights to multiply by",
                         POOL_BYTES >> 20);
    uint32_t random = 1;
    for (size_t i = 0; i < POOL_BYTES; i++) {
        random = random * 1664525u + 1013904223u;
        bench->pool[i] = (char)(0x30 + (random >> 28)); /* FP8: 0.5 to 1.875, BF16 less than 1 */
    }
    for (size_t i = 0; i < (size_t)M_MAX * CHANNELS_MAX; i++)
        bench->x[i] = 0.125f * (float)(i % 17);
    for (size_t i = 0; i < (size_t)(M_MAX + 1) * CHANNELS_MAX; i++)
        bench->blocks[i] = bf16_from_float(0.125f * (float)(i % 17));
    for (size_t i = 0; i < 4096; i++)
        bench->scales[i] = 0.01f;
    memset(bench->y, 0, sizeof(float) * M_MAX * OUTPUTS_MAX);
    return STATUS_OK;
}

static void bench_kernels_print_limits(struct kernels_bench *bench) {
    struct json_print *out = &bench->out;
    json_print_text(out, "level", bench->kernels->name);
    json_print_text(out, "numerics", bench->kernels->numerics);
    harness_number(out, "threads", bench->all.threads);
    json_print_say(out, "level %s (%s), %u threads\n", bench->kernels->name,
                   bench->kernels->numerics, bench->all.threads);
    json_print_open(out, "limits", '[');
    harness_limits(out, NULL, &bench->one, true);
    harness_limits(out, NULL, &bench->all, true);
    json_print_close(out);
}

static enum status run_bench(struct kernels_bench *bench, struct error *error) {
    enum kernel_level level;
    enum status status = kernels_level_masked(bench->values.cpu_mask, &level, error);
    if (status == STATUS_OK) status = kernels_select(level, &bench->kernels, error);
    if (status == STATUS_OK)
        status = team_open((uint32_t)bench->values.threads, &bench->team, error);
    if (status == STATUS_OK) status = bench_kernels_take_memory(bench, error);
    if (status == STATUS_OK) status = machine_limits_measure(bench->team, true, &bench->one, error);
    if (status == STATUS_OK)
        status = machine_limits_measure(bench->team, false, &bench->all, error);
    if (status != STATUS_OK) return status;
    bench->out = json_print_begin(bench->values.json);
    bench_kernels_print_limits(bench);
    json_print_open(&bench->out, "kernels", '[');
    harness_titles(&bench->out, &kernels_table);
    bench_products(bench);
    for (size_t i = 0; i < ARRAY_COUNT(smalls); i++)
        if (bench_kernels_wanted(bench, smalls[i].name) && has_small(bench, &smalls[i]))
            bench_small(bench, &smalls[i]);
    json_print_close(&bench->out);
    json_print_close(&bench->out);
    return STATUS_OK;
}

int bench_kernels(void *given, const struct option_result *result) {
    struct kernels_bench bench = {0};
    struct error error;
    bench.values = *(const struct kernels_values *)given;
    enum status status =
        model_run_sizes_within("--rows", bench.values.rows, 1, M_MAX, &bench.rows, &error);
    if (!status) status = run_bench(&bench, &error);
    team_close(bench.team);
    free(bench.pool);
    free(bench.x);
    free(bench.blocks);
    free(bench.y);
    free(bench.scales);
    return command_end(status, &error);
}
