/* SPDX-License-Identifier: Apache-2.0
 * The model is opened normally, on a checkpoint in memory with one layer and a minimal vocabulary.
 * A case is a step plan without logits. KV pages are filled beforehand, as untouched pages would
 * all be read from the same zeros. A device is timed by its own clock (model_trace.took), since the
 * host only queues work.
 */
#include "bench/layer_run.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/number.h"
#include "bench/machine_limits.h"
#include "bench/stats.h"
#include "compute/model/forward.h"
#include "compute/model/kv_pages.h"
#include "compute/weights/named_shapes.h"
#include "compute/weights/random_tensors.h"

#define VOCAB 64 /* only a token's embedding is needed */

struct stopwatch {
    double since;
    double part[STAGE_PART_COUNT]; /* seconds */
};

struct layer_run {
    struct layer_run_options options;
    struct shape shape;
    enum activations activations;
    enum kernel_level level;
    const struct kernels *kernels;
    struct stopwatch watch;
    struct model_trace trace;
    struct model *model;
    struct step_plan *plan;
};

/* ---- time ---- */

static void begin_stage(void *context) {
    struct stopwatch *watch = context;
    watch->since = machine_limits_now();
}

static void end_stage(void *context, enum stage stage, uint32_t micro_batch, uint32_t layer,
                      const struct exchange_transfer *ended) {
}

static void note_part(void *context, enum stage_part part) {
    struct stopwatch *watch = context;
    double time = machine_limits_now();
    watch->part[part] += time - watch->since;
    watch->since = time;
}

static void note_took(void *context, enum stage_part part, double seconds) {
    struct stopwatch *watch = context;
    watch->part[part] += seconds;
}

/* ---- shape ---- */

static enum status layer_run_read_shape(struct layer_run *run, struct error *error) {
    char config[NAMED_SHAPES_CONFIG_BYTES];
    struct named_shape named = {.name = run->options.shape, .weights = run->options.weights};
    size_t bytes = named_shapes_write_config(&named, config);
    if (!bytes)
        return error_set(error, STATUS_INVALID, "no shape is named '%s'", run->options.shape);
    enum status status =
        shape_parse((struct bytes){config, bytes}, run->options.shape, &run->shape, error);
    if (status != STATUS_OK) return status;
    run->shape.layers = 1;
    run->shape.layer_kinds[0].mlp = MLP_MOE;
    run->shape.vocab = VOCAB;
    run->shape.dense_width = run->shape.expert_width; /* there is no dense layer */
    uint32_t experts = run->options.experts;
    if (experts && experts <= run->shape.experts / 2) return STATUS_OK;
    return error_set(error, STATUS_INVALID,
                     "--experts-here: expected 1 to %u, half of the shape's experts, found %u",
                     run->shape.experts / 2, experts);
}

enum status layer_run_open(const struct layer_run_options *options, struct layer_run **run_out,
                           struct error *error) {
    struct layer_run *run = calloc(1, sizeof *run);
    if (!run) return error_set(error, STATUS_NO_MEMORY, "no memory for the layer");
    run->options = *options;
    run->trace = (struct model_trace){.context = &run->watch,
                                      .begin = begin_stage,
                                      .end = end_stage,
                                      .part = note_part,
                                      .took = note_took};
    enum status status = layer_run_read_shape(run, error);
    if (status == STATUS_OK)
        status = activations_named(options->activations, &run->activations, error);
    if (status == STATUS_OK) status = kernels_level_masked(options->cpu_mask, &run->level, error);
    if (status == STATUS_OK) status = kernels_select(run->level, &run->kernels, error);
    if (status == STATUS_OK)
        *run_out = run;
    else
        layer_run_close(run);
    return status;
}

void layer_run_close(struct layer_run *run) {
    if (!run) return;
    model_close(run->model);
    free(run->plan);
    free(run);
}

const struct shape *layer_run_shape(const struct layer_run *run) {
    return &run->shape;
}
enum activations layer_run_activations(const struct layer_run *run) {
    return run->activations;
}
const struct kernels *layer_run_kernels(const struct layer_run *run) {
    return run->kernels;
}
const char *layer_run_engine(const struct layer_run *run) {
    return run->options.device ? model_numerics_id(run->model) : run->kernels->name;
}

/* ---- memory ---- */

/* The limits that the largest case needs. */
struct needs {
    uint32_t tokens, rows, pages, pairs, kv_pages;
};

static uint32_t pages_each(const struct layer_case *layer) {
    uint32_t end = layer->context + (layer->prompt ? layer->tokens : 1);
    return (uint32_t)divide_up(end, KV_BLOCK_TOKENS);
}

static uint32_t layer_run_rows_of(const struct layer_case *layer) {
    return layer->prompt ? 1 : layer->tokens;
}

static void raise(uint32_t *value, uint32_t to) {
    if (to > *value) *value = to;
}

static struct needs needs_of(const struct layer_case *cases, uint32_t count) {
    struct needs needs = {1, 1, 1, 1, 1};
    for (uint32_t i = 0; i < count; i++) {
        raise(&needs.tokens, cases[i].tokens);
        raise(&needs.rows, layer_run_rows_of(&cases[i]));
        raise(&needs.pages, layer_run_rows_of(&cases[i]) * pages_each(&cases[i]));
        raise(&needs.pairs, cases[i].experts * cases[i].expert_rows);
    }
    return needs;
}

static size_t page_bytes(const struct layer_run *run) {
    struct kv_format format = kv_pages_format(&run->shape, run->activations, 1, 0);
    return kv_format_block_bytes(&format);
}

/* The weights' bytes: the sum over the parts of a case without tokens. kv_b is stored twice, except
 * its value halves. */
static uint64_t weight_bytes(const struct layer_run *run) {
    struct layer_case bare = {
        .shape = &run->shape, .activations = run->activations, .experts = run->options.experts};
    double bytes = 0;
    for (int part = 0; part < STAGE_PART_COUNT; part++) {
        bare.prompt = part == PART_CORE_PROMPT;
        bare.context = part == PART_INDEX_QUERY ? LIMIT_CONTEXT : 0; /* so that it runs */
        if (part != PART_ABSORB_VALUE) bytes += layer_work_of(&bare, (enum stage_part)part).bytes;
    }
    return (uint64_t)bytes;
}

struct layer_run_bytes layer_run_bytes(const struct layer_run *run, const struct layer_case *cases,
                                       uint32_t count) {
    const struct shape *shape = &run->shape;
    struct needs needs = needs_of(cases, count);
    uint64_t heads = shape->heads, widest = heads * shape->value_dim;
    uint64_t token = 8ull * shape->hidden + widest + shape->q_rank +
                     heads * (shape_query_dim(shape) + shape->value_dim) +
                     3ull * shape->shared_experts * shape->expert_width;
    uint64_t absorbed = heads * (2 * shape_kv_width(shape) + shape->value_dim);
    uint64_t pair = 2ull * shape->hidden + 3ull * shape->expert_width;
    uint64_t wave = needs.pairs < needs.tokens + 1024 ? needs.pairs : needs.tokens + 1024;
    return (struct layer_run_bytes){
        .weights = weight_bytes(run),
        .source = widest * shape->hidden * (shape->fp8 ? 1 : 2),
        .kv = (uint64_t)needs.pages * page_bytes(run),
        .room = 4 * (needs.tokens * token + wave * pair +
                     (needs.tokens < 256 ? needs.tokens : 256) * absorbed) +
                2ull * needs.pairs * shape->hidden,
    };
}

/* Fills a page's rows of a group. */
static void fill_rows(const struct layer_run *run, struct kv_pages *pages, uint32_t page,
                      uint32_t group, uint32_t width, uint32_t *state) {
    float *row = malloc(width * sizeof *row);
    check(row);
    for (uint32_t token = 0; token < KV_BLOCK_TOKENS; token++) {
        for (uint32_t i = 0; i < width; i++) {
            *state = *state * 1664525u + 1013904223u;
            row[i] = (float)(*state >> 8) * 0x1p-23f - 1;
        }
        kv_pages_write(pages, run->kernels, group, kv_pages_row(pages, page, 0, group, token), row);
    }
    free(row);
}

/* Fills one page's rows, then copies them to all pages. Each page has index keys of its own, as
 * equal ones would all be chosen or none. */
static void layer_run_fill_pages(struct layer_run *run) {
    struct kv_pages *pages = model_kv_pages(run->model);
    uint32_t state = 1;
    fill_rows(run, pages, 0, KV_GROUP_MLA, shape_kv_width(&run->shape), &state);
    void *first = kv_pages_slice(pages, 0, 0);
    for (uint32_t page = 0; page < pages->page_count; page++) {
        if (page) memcpy(kv_pages_slice(pages, page, 0), first, pages->slice_bytes);
        if (shape_has_index(&run->shape))
            fill_rows(run, pages, page, KV_GROUP_INDEX, run->shape.index_dim, &state);
        kv_pages_give(pages, page, 0, 1);
    }
}

enum status layer_run_prepare(struct layer_run *run, const struct layer_case *cases, uint32_t count,
                              struct error *error) {
    struct needs needs = needs_of(cases, count);
    uint32_t experts = run->options.experts;
    uint32_t ranks = (uint32_t)divide_up(run->shape.experts, experts);
    for (uint32_t i = 0; i < count; i++) /* which may exceed the shape's limit */
        raise(&run->shape.context_max, pages_each(&cases[i]) * KV_BLOCK_TOKENS);
    struct model_options options = {
        .activations = run->activations,
        .device = run->options.device,
        .level = run->level,
        .threads = run->options.threads,
        .kv_bytes = (uint64_t)needs.pages * page_bytes(run),
        .step_tokens_max = needs.tokens,
        .step_rows_max = needs.rows,
        .rank_count = ranks,
        .redundant_experts = ranks * experts - run->shape.experts,
        .echoes = true,
        .echo_rows = needs.pairs,
        .trace = &run->trace,
    };
    enum status status = random_tensors_open(&run->shape, &options.checkpoint, error);
    if (status == STATUS_OK) status = model_open(&options, &run->model, error);
    if (status != STATUS_OK) return status;
    layer_run_fill_pages(run);
    run->plan =
        calloc(1, record_bytes(RECORD_RUN_STEP, &(struct step_plan){.row_count = needs.rows,
                                                                    .token_count = needs.tokens,
                                                                    .page_count = needs.pages}));
    if (run->plan) return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for %u tokens", needs.tokens);
}

/* ---- running ---- */

static void plan_case(struct layer_run *run, const struct layer_case *layer) {
    struct step_plan *plan = run->plan;
    uint32_t each = pages_each(layer);
    *plan = (struct step_plan){.row_count = layer_run_rows_of(layer),
                               .token_count = layer->tokens,
                               .page_count = layer_run_rows_of(layer) * each};
    record_set_head(plan, RECORD_RUN_STEP);
    for (uint32_t i = 0; i < plan->row_count; i++)
        step_plan_rows(plan)[i] = (struct step_row){
            .slot = i,
            .form = layer->prompt ? TOKEN_PROMPT : TOKEN_GENERATED,
            .first_position = layer->context,
            .token_count = layer->prompt ? layer->tokens : 1,
            .token_index = i,
            .page_index = i * each,
            .page_count = each,
        };
    for (uint32_t i = 0; i < plan->token_count; i++)
        step_plan_tokens(plan)[i] = i % VOCAB;
    for (uint32_t i = 0; i < plan->page_count; i++)
        step_plan_pages(plan)[i] = (struct page_id){i};
}

static double layer_run_settle(double *seconds, const struct layer_rounds *rounds) {
    struct stats_spread spread = stats_spread(seconds, rounds->count, 0);
    return rounds->best ? spread.low : spread.median;
}

enum status layer_run_measure(struct layer_run *run, const struct layer_case *layer,
                              const struct layer_rounds *rounds, struct layer_times *times_out,
                              struct error *error) {
    double seconds[STAGE_PART_COUNT][LAYER_RUN_ROUNDS_MAX], whole[LAYER_RUN_ROUNDS_MAX];
    check(rounds->count > 0 && rounds->count <= LAYER_RUN_ROUNDS_MAX);
    plan_case(run, layer);
    model_echo_rows(run->model, layer->expert_rows);
    for (uint32_t round = 0; round <= rounds->count; round++) {
        run->watch = (struct stopwatch){.since = 0};
        enum status status = forward_run(run->model, run->plan, NULL, NULL, error);
        if (status != STATUS_OK) return status;
        if (round == 0) continue; /* touches the memory for the first time */
        whole[round - 1] = 0;
        for (int part = 0; part < STAGE_PART_COUNT; part++) {
            seconds[part][round - 1] = run->watch.part[part];
            whole[round - 1] += run->watch.part[part];
        }
    }
    times_out->layer = layer_run_settle(whole, rounds);
    for (int part = 0; part < STAGE_PART_COUNT; part++)
        times_out->part[part] = layer_run_settle(seconds[part], rounds);
    return STATUS_OK;
}
