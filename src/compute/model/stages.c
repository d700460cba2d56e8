/* SPDX-License-Identifier: Apache-2.0
 * A micro-batch consists of consecutive tokens of the step, and uses the step's values from its
 * first token on (compute.h, micro_batch). It may be empty, as all ranks run the same schedule,
 * however many tokens they have.
 */
#include "compute/model/stages.h"

#include "base/heartbeat.h"
#include "compute/model/compute.h"

static uint32_t first_token(const struct model *model, struct step_cut cut) {
    const struct run *run = batch_run_of_row(&model->batch, cut.row);
    return run ? run->first + cut.token : model->batch.token_count;
}

/* If a cut precedes the previous one, the micro-batch between them is empty. */
void stages_set_micro_batches(struct model *model, const struct step_plan *plan) {
    uint32_t end = 0, count = overlap_of((enum overlap_kind)plan->overlap)->micro_batch_count;
    model->micro_batch_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct micro_batch *micro_batch = &model->micro_batches[i];
        uint32_t cut = i + 1 < count ? first_token(model, plan->cuts[i]) : model->batch.token_count;
        micro_batch->first = end;
        if (cut > end) end = cut;
        micro_batch->scratch = model->compute->micro_batch(model, i, micro_batch->first);
        batch_take(&micro_batch->batch, &model->batch, micro_batch->first,
                   end - micro_batch->first);
    }
}

uint32_t stages_number(const struct model *model, const struct step_plan *plan,
                       const struct model_probe *probe) {
    bool watched = model->trace ||
                   (probe && (probe->routing || probe->attended) && probe->row != MODEL_NO_ROW);
    if (watched || model->batch.prompt_tokens) return 0;
    for (uint32_t i = 0; i < plan->row_count; i++)
        if (step_plan_rows(plan)[i].loads) return 0;
    return 1 + plan->overlap;
}

static void run_stage(const struct pass *pass, enum stage stage) {
    const struct compute *compute = pass->model->compute;
    bool moe = pass_is_moe(pass);
    switch (stage) {
    case STAGE_ATTENTION_0:
        compute->attention_begin(pass);
        break;
    case STAGE_ATTENTION_1:
        compute->attention_finish(pass);
        compute->add(pass);
        pass_part(pass, PART_ATTENTION_ADD);
        if (moe) compute->experts_route(pass);
        break;
    case STAGE_DISPATCH:
        if (moe) compute->experts_dispatch(pass);
        break;
    case STAGE_SHARED:
        if (moe) compute->experts_run_shared(pass);
        break;
    case STAGE_MLP:
        if (moe)
            compute->experts_run_routed(pass);
        else
            compute->mlp_run(pass);
        break;
    case STAGE_COMBINE:
        if (moe) compute->experts_finish(pass);
        compute->add(pass);
        pass_part(pass, PART_MLP_ADD);
        break;
    case STAGE_COUNT:
        break;
    }
}

/* True if the stage waits for a transfer of the micro-batch. */
static bool awaits(const struct model *model, uint32_t layer, enum stage stage,
                   uint32_t micro_batch) {
    return (stage == STAGE_MLP || stage == STAGE_COMBINE) &&
           shape_layer_is_moe(model->shape, layer) &&
           exchange_moves_rows(model->micro_batches[micro_batch].exchange);
}

static void begin_traced(const struct model *model) {
    if (model->trace) model->trace->begin(model->trace->context);
}

static void run_traced(const struct pass *pass, enum stage stage, uint32_t micro_batch) {
    const struct model_trace *trace = pass->model->trace;
    bool waits = awaits(pass->model, pass->layer, stage, micro_batch);
    heartbeat_place(pass->layer, (uint32_t)stage);
    pass_part(pass, STAGE_PART_COUNT); /* the stage begins */
    run_stage(pass, stage);
    if (!trace) return;
    struct exchange_transfer ended;
    if (waits) ended = exchange_last_transfer(pass->exchange);
    trace->end(trace->context, stage, micro_batch, pass->layer, waits ? &ended : NULL);
}

void stages_run_layer(const struct pass *pass) {
    const struct overlap *overlap = overlap_of(OVERLAP_SEQUENTIAL);
    for (uint32_t i = 0; i < overlap->row_count; i++)
        run_stage(pass, (enum stage)overlap->rows[i].stage);
}

/* Copies the choices of experts and of KV rows of the probed row's last token, after it has passed
 * through the layer. */
static void probe_layer(const struct pass *pass, const struct model_probe *probe,
                        uint32_t micro_batch_first) {
    const struct model *model = pass->model;
    const uint32_t per_token = model->shape->experts_per_token;
    const uint32_t rows = model->shape->index_top_k;
    if (!probe || probe->row == MODEL_NO_ROW) return;
    const struct run *run = batch_run_of_row(&model->batch, probe->row);
    uint32_t token = run->first + run->token_count - 1 - micro_batch_first;
    if (token >= pass->batch->token_count)
        return; /* not in this micro-batch; if it is before, the difference wraps around */
    if (probe->attended && rows)
        model->compute->rows_attended(pass, token, probe->attended + (size_t)pass->layer * rows);
    uint32_t *to = probe->routing + (size_t)pass->layer * per_token;
    if (!probe->routing || !per_token) return;
    if (pass_is_moe(pass)) model->compute->experts_chosen(pass, token, to);
    for (uint32_t i = 0; i < per_token && !pass_is_moe(pass); i++)
        to[i] = UINT32_MAX;
}

struct layer_walk {
    struct model *model;
    const struct step_plan *plan;
    const struct overlap *overlap;
    const struct model_probe *probe;
    uint32_t written[OVERLAP_MICRO_BATCHES]; /* leading layers with written KV rows, of each */
    uint32_t reported;                       /* the minimum of them */
};

void stages_report(struct model *model, const struct step_plan *plan, uint32_t slices) {
    if (model->follower.written && plan->row_count)
        model->compute->report(model, plan->step, slices);
}

void stages_report_all(struct model *model, const struct step_plan *plan) {
    for (uint32_t slices = 1; slices <= model->shape->layers; slices++)
        stages_report(model, plan, slices);
}

/* Each micro-batch finishes one layer at a time, so the minimum advances by at most one. */
static void report_written(struct layer_walk *walk, uint32_t micro_batch) {
    walk->written[micro_batch]++;
    for (uint32_t i = 0; i < walk->overlap->micro_batch_count; i++)
        if (walk->written[i] == walk->reported) return;
    stages_report(walk->model, walk->plan, ++walk->reported);
}

/* The stage that reads the KV rows of earlier tokens. An indexer reads their keys. */
static enum stage reading_stage(const struct model *model) {
    return shape_has_index(model->shape) ? STAGE_ATTENTION_0 : STAGE_ATTENTION_1;
}

/* Waits for the layer's KV blocks of rows that load any. Other rows' results depend neither on the
 * loaded data nor on whether it arrives. */
static void await_loads(const struct layer_walk *walk, const struct pass *pass) {
    const struct model_follower *follower = &walk->model->follower;
    for (uint32_t i = 0; i < pass->batch->run_count && follower->await; i++) {
        const struct step_row *row = &step_plan_rows(walk->plan)[pass->batch->runs[i].plan_row];
        if (row->loads) follower->await(follower->context, row->slot, pass->layer + 1);
    }
}

/* The value of pass.early: 0 if rows of the micro-batch load KV blocks, since they may wait as late
 * as before ATTENTION_1. */
static uint32_t early_of(const struct layer_walk *walk, const struct batch *batch) {
    for (uint32_t i = batch->prompt_runs; i < batch->run_count; i++)
        if (step_plan_rows(walk->plan)[batch->runs[i].plan_row].loads) return 0;
    return overlap_early(walk->overlap, batch->token_count - batch->prompt_tokens);
}

/* Runs one stage of one micro-batch. Its traced time counts from begin_traced. */
static void stages_run_row(struct layer_walk *walk, enum stage stage, uint32_t index,
                           uint32_t layer) {
    struct model *model = walk->model;
    struct micro_batch *micro_batch = &model->micro_batches[index];
    struct pass pass = {.model = model,
                        .scratch = micro_batch->scratch,
                        .exchange = micro_batch->exchange,
                        .batch = &micro_batch->batch,
                        .early = early_of(walk, &micro_batch->batch),
                        .layer = layer};
    if (stage == reading_stage(model)) await_loads(walk, &pass);
    run_traced(&pass, stage, index);
    if (stage == STAGE_ATTENTION_0) report_written(walk, index);
    if (stage == STAGE_COMBINE) probe_layer(&pass, walk->probe, micro_batch->first);
}

static void run_in_order(struct layer_walk *walk) {
    const struct overlap *overlap = walk->overlap;
    uint32_t layers = walk->model->shape->layers;
    for (uint32_t at = 0; at <= layers; at++) /* rows that are not ahead are at layer at - 1 */
        for (uint32_t i = 0; i < overlap->row_count; i++) {
            const struct overlap_row *row = &overlap->rows[i];
            uint32_t layer = at + row->ahead - 1;
            if (layer >= layers)
                continue; /* beyond the last or, wrapped around, before the first */
            begin_traced(walk->model);
            stages_run_row(walk, (enum stage)row->stage, row->micro_batch, layer);
        }
}

/* The micro-batch with the longest wait. */
static uint32_t stages_oldest(const struct overlap *overlap, const struct overlap_place *places,
                              const uint32_t *since) {
    uint32_t found = overlap->micro_batch_count;
    for (uint32_t i = 0; i < overlap->micro_batch_count; i++)
        if (places[i].waits && (found == overlap->micro_batch_count || since[i] < since[found]))
            found = i;
    return found;
}

/* Chooses the next micro-batch. It polls the transfers, and waits for the first of them if no stage
 * can run. In a fixed order arrivals are ignored: a waiting micro-batch runs only when no other
 * can. `since`: the number of stages done when each began to wait. */
static uint32_t next_micro_batch(const struct layer_walk *walk, struct overlap_place *places,
                                 const uint32_t *since) {
    const struct overlap *overlap = walk->overlap;
    struct exchange *awaited[OVERLAP_MICRO_BATCHES];
    uint32_t count = 0, next;
    for (uint32_t i = 0; i < overlap->micro_batch_count && !walk->model->fixed_order; i++)
        if (places[i].waits) {
            places[i].waits = !exchange_arrived(walk->model->micro_batches[i].exchange);
            if (places[i].waits) awaited[count++] = walk->model->micro_batches[i].exchange;
        }
    while ((next = overlap_next(overlap, walk->model->shape->layers, reading_stage(walk->model),
                                places)) == overlap->micro_batch_count) {
        if (walk->model->fixed_order) {
            places[stages_oldest(overlap, places, since)].waits = false;
            continue;
        }
        const struct exchange *come = exchange_wait_any(awaited, count);
        for (uint32_t i = 0; i < overlap->micro_batch_count; i++)
            if (walk->model->micro_batches[i].exchange == come) places[i].waits = false;
    }
    return next;
}

static void run_dynamic_order(struct layer_walk *walk) {
    struct overlap_place places[OVERLAP_MICRO_BATCHES] = {{0}};
    uint32_t layers = walk->model->shape->layers, since[OVERLAP_MICRO_BATCHES] = {0};
    uint32_t stages = walk->overlap->micro_batch_count * layers * STAGE_COUNT;
    for (uint32_t done = 0; done < stages; done++) {
        begin_traced(walk->model);
        uint32_t micro_batch = next_micro_batch(walk, places, since);
        struct overlap_place *place = &places[micro_batch];
        stages_run_row(walk, place->stage, micro_batch, place->layer);
        overlap_advance(place);
        place->waits =
            place->layer < layers && awaits(walk->model, place->layer, place->stage, micro_batch);
        since[micro_batch] = done;
    }
}

void stages_run(struct model *model, const struct step_plan *plan,
                const struct model_probe *probe) {
    struct layer_walk walk = {.model = model,
                              .plan = plan,
                              .overlap = overlap_of((enum overlap_kind)plan->overlap),
                              .probe = probe};
    (walk.overlap->dynamic_order ? run_dynamic_order : run_in_order)(&walk);
}
