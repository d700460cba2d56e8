/* SPDX-License-Identifier: Apache-2.0
 * A step's layers, stage by stage as its schedule says. A lane has no room of its own: its tokens
 * are consecutive ones of the step, so it works in the step's scratch from its first token on. Room
 * that a stage uses only while it runs is shared by the lanes.
 *
 * A lane may be empty: among ranks all run the same table, whatever tokens they have.
 */
#include "base/pulse.h"
#include "compute/model/compute.h"

/* The runs of tokens [first, first + count) of the step, counted from the lane's first. */
static void take_runs(const struct batch *step, struct batch *batch, uint32_t first,
                      uint32_t count) {
    uint32_t end = first + count;
    batch->run_count = batch->prompt_runs = 0;
    for (uint32_t i = 0; i < step->run_count; i++) {
        const struct run *run = &step->runs[i];
        uint32_t from = run->first > first ? run->first : first;
        uint32_t to = run->first + run->token_count < end ? run->first + run->token_count : end;
        if (from >= to) continue;
        struct run *part = &batch->runs[batch->run_count];
        *part = *run;
        part->first = from - first;
        part->token_count = to - from;
        part->first_position += from - run->first;
        for (uint32_t token = part->first; token < part->first + part->token_count; token++)
            batch->token_run[token] = batch->run_count;
        batch->run_count++;
        batch->prompt_runs += i < step->prompt_runs;
    }
}

static void set_lane(struct model *model, uint32_t index, uint32_t count) {
    const struct batch *step = &model->scratch.batch;
    struct lane *lane = &model->lanes[index];
    struct batch *batch = &lane->batch;
    uint32_t first = lane->first;
    uint32_t prompt = step->prompt_tokens > first ? step->prompt_tokens - first : 0;
    lane->scratch = scratch_from(&model->scratch, model, first);
    batch->runs = model->scratch.lane_runs[index];
    batch->token_run = model->scratch.lane_token_run[index];
    batch->token_count = count;
    batch->prompt_tokens = prompt < count ? prompt : count;
    batch->token_ids = step->token_ids + first;
    batch->positions = step->positions + first;
    batch->angles = step->angles + (size_t)first * model->shape->rope_dim;
    take_runs(step, batch, first, count);
}

void stages_set_lanes(struct model *model, enum overlap_kind kind) {
    uint32_t lanes = overlap_of(kind)->lane_count, end = model->scratch.batch.token_count;
    model->lane_count = lanes;
    if (lanes == 1) {
        model->lanes[0].scratch = model->scratch;
        return;
    }
    for (uint32_t lane = lanes; lane-- > 0; end = model->lanes[lane].first)
        set_lane(model, lane, end - model->lanes[lane].first);
}

static void run_stage(const struct pass *pass, enum stage stage) {
    bool moe = pass->layer->is_moe;
    switch (stage) {
    case STAGE_ATTENTION_0:
        attention_begin(pass);
        break;
    case STAGE_ATTENTION_1:
        attention_finish(pass);
        compute_add(pass);
        forward_part(pass, PART_ATTENTION_ADD);
        if (moe) experts_route(pass);
        break;
    case STAGE_DISPATCH:
        if (moe) experts_dispatch(pass);
        break;
    case STAGE_SHARED:
        if (moe) experts_run_shared(pass);
        break;
    case STAGE_MLP:
        if (moe)
            experts_run_routed(pass);
        else
            mlp_run(pass);
        break;
    case STAGE_COMBINE:
        if (moe) experts_finish(pass);
        compute_add(pass);
        forward_part(pass, PART_MLP_ADD);
        break;
    case STAGE_COUNT:
        break;
    }
}

/* A lane's transfer that the stage waits for, if there is any. */
static bool awaits(const struct model *model, uint32_t layer, enum stage stage, uint32_t lane) {
    return (stage == STAGE_MLP || stage == STAGE_COMBINE) && model->weights.layers[layer].is_moe &&
           exchange_carries(model->lanes[lane].exchange);
}

static void begin_traced(const struct model *model) {
    if (model->trace) model->trace->begin(model->trace->context);
}

static void run_traced(const struct pass *pass, enum stage stage, uint32_t lane) {
    const struct model_trace *trace = pass->model->trace;
    bool waits = awaits(pass->model, pass->slice, stage, lane);
    pulse_place(pass->slice, (uint32_t)stage);
    run_stage(pass, stage);
    if (!trace) return;
    struct exchange_transfer ended;
    if (waits) ended = exchange_last(pass->exchange);
    trace->end(trace->context, stage, lane, pass->slice, waits ? &ended : NULL);
}

void stages_run_layer(const struct pass *pass) {
    const struct overlap *overlap = overlap_of(OVERLAP_SEQUENTIAL);
    for (uint32_t i = 0; i < overlap->row_count; i++)
        run_stage(pass, (enum stage)overlap->rows[i].stage);
}

/* The choices of the probed row's last token, once it has gone through the layer. */
static void probe_routing(const struct pass *pass, const struct model_probe *probe,
                          uint32_t lane_first) {
    const struct model *model = pass->model;
    uint32_t per_token = model->shape->experts_per_token;
    if (!probe || !probe->routing || !per_token || probe->row == MODEL_NO_ROW) return;
    const struct run *run = forward_run_of_row(&model->scratch.batch, probe->row);
    uint32_t token = run->first + run->token_count - 1 - lane_first;
    if (token >= pass->batch->token_count) return; /* wraps around before the lane */
    uint32_t *to = probe->routing + (size_t)pass->slice * per_token;
    if (pass->layer->is_moe) experts_chosen(pass, token, to);
    for (uint32_t i = 0; i < per_token && !pass->layer->is_moe; i++)
        to[i] = UINT32_MAX;
}

struct walk {
    struct model *model;
    const struct step_plan *plan;
    const struct overlap *overlap;
    const struct model_probe *probe;
    uint32_t written[OVERLAP_LANES]; /* leading layers whose KV rows the lane has written */
    uint32_t told;                   /* ... and all lanes have */
};

/* A lane writes its rows layer by layer, each time by one; so does the slowest of all. */
static void tell_written(struct walk *walk, uint32_t lane) {
    walk->written[lane]++;
    for (uint32_t i = 0; i < walk->overlap->lane_count; i++)
        if (walk->written[i] == walk->told) return;
    forward_tell(walk->model, walk->plan, ++walk->told);
}

/* The time since begin_traced is the stage's. */
/* Other rows' results do not depend on what comes, nor on whether it does. */
static void await_loads(const struct walk *walk, const struct pass *pass) {
    const struct model_follower *follower = &walk->model->follower;
    for (uint32_t i = 0; i < pass->batch->run_count && follower->await; i++) {
        const struct step_row *row = &step_plan_rows(walk->plan)[pass->batch->runs[i].plan_row];
        if (row->loads) follower->await(follower->context, row->slot, row->loads, pass->slice + 1);
    }
}

static void run_row(struct walk *walk, enum stage stage, uint32_t index, uint32_t layer) {
    struct model *model = walk->model;
    struct lane *lane = &model->lanes[index];
    bool whole = walk->overlap->lane_count == 1;
    struct pass pass = {.model = model,
                        .scratch = &lane->scratch,
                        .exchange = lane->exchange,
                        .batch = whole ? &model->scratch.batch : &lane->batch,
                        .layer = &model->weights.layers[layer],
                        .slice = layer};
    if (stage == STAGE_ATTENTION_1) await_loads(walk, &pass);
    run_traced(&pass, stage, index);
    if (stage == STAGE_ATTENTION_0) tell_written(walk, index);
    if (stage == STAGE_COMBINE) probe_routing(&pass, walk->probe, whole ? 0 : lane->first);
}

static void run_in_order(struct walk *walk) {
    const struct overlap *overlap = walk->overlap;
    uint32_t layers = walk->model->shape->layers;
    for (uint32_t at = 0; at <= layers; at++) /* at layer at - 1 */
        for (uint32_t i = 0; i < overlap->row_count; i++) {
            const struct overlap_row *row = &overlap->rows[i];
            uint32_t layer = at + row->ahead - 1;
            if (layer >= layers) continue; /* or before the first: wraps around */
            begin_traced(walk->model);
            run_row(walk, (enum stage)row->stage, row->lane, layer);
        }
}

/* Looks which lanes' transfers have come; waits for the first of them if nothing can be done
 * meanwhile. */
static uint32_t next_lane(const struct walk *walk, struct overlap_place *places) {
    const struct overlap *overlap = walk->overlap;
    struct exchange *awaited[OVERLAP_LANES];
    uint32_t count = 0, next;
    for (uint32_t i = 0; i < overlap->lane_count; i++)
        if (places[i].waits) {
            places[i].waits = !exchange_arrived(walk->model->lanes[i].exchange);
            if (places[i].waits) awaited[count++] = walk->model->lanes[i].exchange;
        }
    while ((next = overlap_next(overlap, walk->model->shape->layers, places)) ==
           overlap->lane_count) {
        const struct exchange *come = exchange_wait_any(awaited, count);
        for (uint32_t i = 0; i < overlap->lane_count; i++)
            if (walk->model->lanes[i].exchange == come) places[i].waits = false;
    }
    return next;
}

static void run_by_urgency(struct walk *walk) {
    struct overlap_place places[OVERLAP_LANES] = {{0}};
    uint32_t layers = walk->model->shape->layers;
    for (uint32_t left = walk->overlap->lane_count * layers * STAGE_COUNT; left > 0; left--) {
        begin_traced(walk->model);
        uint32_t lane = next_lane(walk, places);
        struct overlap_place *place = &places[lane];
        run_row(walk, place->stage, lane, place->layer);
        overlap_advance(place);
        place->waits =
            place->layer < layers && awaits(walk->model, place->layer, place->stage, lane);
    }
}

void stages_run(struct model *model, const struct step_plan *plan,
                const struct model_probe *probe) {
    struct walk walk = {.model = model,
                        .plan = plan,
                        .overlap = overlap_of((enum overlap_kind)plan->overlap),
                        .probe = probe};
    (walk.overlap->urgency ? run_by_urgency : run_in_order)(&walk);
}
