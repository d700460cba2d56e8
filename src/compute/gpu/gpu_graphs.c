/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/gpu/gpu_graphs.h"

#include "base/check.h"
#include "compute/exchange/exchange.h"
#include "compute/gpu/gpu_layers.h"

#include <stdlib.h>
#include <string.h>

/* Of a lane, at most: legs end between stages, and one of a layer's has nothing that a leg could have. */
#define LEGS_OF_LAYER (STAGE_COUNT - 1)

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* The next power of two. */
static uint32_t power_above(uint32_t count) {
    uint32_t power = 1;
    while (power < count)
        power *= 2;
    return power;
}

/* As much as there is. */
static void set_exact(struct model *model) {
    for (uint32_t i = 0; i < model->lane_count; i++) {
        struct gpu_lane *lane = &model->gpu->lanes[i];
        lane->rows = model->lanes[i].batch.token_count;
        lane->live = NULL;
        lane->keys_max = 0;
    }
}

static struct gpu_walk describe(const struct model *model, uint32_t number) {
    const struct gpu_state *state = model->gpu;
    struct gpu_walk walk;
    memset(&walk, 0, sizeof walk); /* walks are compared byte by byte */
    walk.number = number;
    walk.lanes = model->lane_count;
    for (uint32_t i = 0; i < model->lane_count; i++) {
        uint32_t count = model->lanes[i].batch.token_count, first = model->lanes[i].first;
        bool last = first + count == model->batch.token_count;
        if (!count) continue;
        walk.first[i] = first;
        walk.rows[i] = last ? least(power_above(count), state->tokens_max - first) : count;
    }
    uint32_t parts = (uint32_t)divide_up(gpu_most_keys(&model->batch), GPU_GRAPH_KEYS);
    walk.keys_max = least(power_above(parts) * GPU_GRAPH_KEYS, state->positions_max + 1);
    return walk;
}

static void set_bounds(struct model *model, const struct gpu_walk *walk) {
    for (uint32_t i = 0; i < walk->lanes; i++) {
        struct gpu_lane *lane = &model->gpu->lanes[i];
        lane->rows = walk->rows[i];
        lane->live = lane->batch.live + 1 + i;
        lane->keys_max = walk->keys_max;
    }
}

/* NULL: it is not kept. */
static struct gpu_kept_walk *find(struct gpu_graphs *graphs, const struct gpu_walk *walk) {
    for (uint32_t i = 0; i < GPU_WALKS_MAX; i++) {
        struct gpu_kept_walk *kept = &graphs->kept[i];
        if (kept->used && !memcmp(&kept->walk, walk, sizeof *walk)) return kept;
    }
    return NULL;
}

/* The place becomes free. */
static void drop(struct gpu_graphs *graphs, struct gpu_kept_walk *kept, struct device *device) {
    for (uint32_t i = 0; i < kept->leg_count; i++)
        device_close_graph(device, kept->legs[i].graph);
    graphs->count -= kept->leg_count;
    free(kept->legs);
    *kept = (struct gpu_kept_walk){0};
}

/* A free place, or the walk that has not come for longest; of those that have graphs, if `captured`. */
static struct gpu_kept_walk *oldest(struct gpu_graphs *graphs, bool captured) {
    struct gpu_kept_walk *found = NULL;
    for (uint32_t i = 0; i < GPU_WALKS_MAX; i++) {
        struct gpu_kept_walk *kept = &graphs->kept[i];
        if (captured && !kept->leg_count) continue;
        if (!found || kept->used < found->used) found = kept;
    }
    return found;
}

static void keep(struct gpu_graphs *graphs, const struct gpu_walk *walk, struct device *device) {
    struct gpu_kept_walk *kept = oldest(graphs, false);
    drop(graphs, kept, device);
    *kept = (struct gpu_kept_walk){.walk = *walk, .used = ++graphs->walks};
}

/* Lists as many legs as the walk may have, and makes room for their graphs. False: there is no memory. */
static bool make_room(const struct model *model, struct gpu_kept_walk *kept, uint32_t most) {
    struct gpu_graphs *graphs = &model->gpu->graphs;
    check(most);
    while (graphs->count && graphs->count + most > graphs->most)
        drop(graphs, oldest(graphs, true), model->gpu->device);
    kept->legs = calloc(most, sizeof *kept->legs);
    kept->leg_room = most;
    return kept->legs;
}

/* ---- legs ---- */

static void launch(const struct model *model, struct device_graph *graph, uint32_t lane) {
    struct gpu_state *state = model->gpu;
    device_launch_graph(state->device, state->lanes[lane].stream, graph);
    state->graphs.launched++;
}

static void begin_leg(struct gpu_state *state, uint32_t lane) {
    struct gpu_walker *walker = &state->graphs.walkers[lane];
    device_begin_capture(state->device, state->lanes[lane].stream);
    walker->captures = true;
    walker->first = walker->calls;
}

/* What was captured is put in line. NULL: it could not be. */
static struct device_graph *end_capture(struct model *model, uint32_t lane) {
    struct gpu_state *state = model->gpu;
    struct device_graph *graph;
    struct error error;
    state->graphs.walkers[lane].captures = false;
    enum status status =
        device_end_capture(state->device, state->lanes[lane].stream, &graph, &error);
    gpu_state_note(state, status, &error);
    if (status != STATUS_OK) return NULL;
    launch(model, graph, lane);
    return graph;
}

static void end_leg(struct model *model, uint32_t lane) {
    struct gpu_graphs *graphs = &model->gpu->graphs;
    struct gpu_kept_walk *kept = graphs->step;
    const struct gpu_walker *walker = &graphs->walkers[lane];
    struct gpu_leg leg = {end_capture(model, lane), lane, walker->first, walker->calls};
    if (!leg.graph) return;
    check(kept->leg_count < kept->leg_room);
    kept->legs[kept->leg_count++] = leg;
    graphs->count++;
}

bool gpu_graphs_enter(struct model *model, uint32_t lane) {
    struct gpu_graphs *graphs = &model->gpu->graphs;
    const struct gpu_kept_walk *kept = graphs->step;
    struct gpu_walker *walker = &graphs->walkers[lane];
    if (!kept || !graphs->by_legs) return true;
    if (!kept->is_captured) {
        if (!walker->captures) begin_leg(model->gpu, lane);
        walker->calls++;
        return true;
    }
    while (walker->next < kept->leg_count && kept->legs[walker->next].lane != lane)
        walker->next++;
    check(walker->next < kept->leg_count);
    const struct gpu_leg *leg = &kept->legs[walker->next];
    if (walker->calls == leg->first) launch(model, leg->graph, lane);
    if (++walker->calls == leg->end) walker->next++;
    return false;
}

void gpu_graphs_stop(struct model *model) {
    struct gpu_graphs *graphs = &model->gpu->graphs;
    for (uint32_t lane = 0; graphs->by_legs && lane < model->lane_count; lane++)
        if (graphs->walkers[lane].captures) end_leg(model, lane);
}

/* ---- rows that came ---- */

static struct gpu_kept_rows *kept_rows(struct model *model, uint32_t rows) {
    uint32_t power = 0;
    while (UINT32_C(1) << power < rows)
        power++;
    check(power < GPU_ROW_BOUNDS);
    return &model->gpu->graphs.rows[power];
}

uint32_t gpu_graphs_rows(const struct model *model, uint32_t count, uint32_t most) {
    return model->gpu->graphs.takes_rows ? least(power_above(count), most) : 0;
}

/* No leg is captured now: the host has just waited. */
bool gpu_graphs_begin_rows(struct model *model, uint32_t lane, uint32_t rows) {
    struct gpu_kept_rows *kept = kept_rows(model, rows);
    if (kept->graph) launch(model, kept->graph, lane);
    if (!kept->graph && kept->came) begin_leg(model->gpu, lane);
    kept->came = true;
    return kept->graph;
}

void gpu_graphs_end_rows(struct model *model, uint32_t lane, uint32_t rows) {
    if (model->gpu->graphs.walkers[lane].captures)
        kept_rows(model, rows)->graph = end_capture(model, lane);
}

/* ---- walks ---- */

bool gpu_graphs_begin(struct model *model, uint32_t number) {
    struct gpu_state *state = model->gpu;
    struct gpu_graphs *graphs = &state->graphs;
    graphs->is_step = false;
    graphs->by_legs = exchange_carries(model->lanes[0].exchange);
    graphs->takes_rows = number && !graphs->off && state->status == STATUS_OK;
    set_exact(model);
    if (!graphs->takes_rows || !model->batch.token_count) return false;
    struct gpu_walk walk = describe(model, number);
    struct gpu_kept_walk *kept = find(graphs, &walk);
    if (!kept) {
        keep(graphs, &walk, state->device);
        return false;
    }
    kept->used = ++graphs->walks;
    uint32_t most = graphs->by_legs ? model->lane_count * LEGS_OF_LAYER * model->shape->layers : 1;
    if (!kept->is_captured && !make_room(model, kept, most)) return false;
    graphs->is_step = true;
    graphs->replayed += kept->is_captured;
    if (kept->is_captured && !graphs->by_legs) {
        launch(model, kept->legs[0].graph, 0);
        return true;
    }
    set_bounds(model, &walk);
    graphs->step = kept;
    memset(graphs->walkers, 0, sizeof graphs->walkers);
    if (!kept->is_captured && !graphs->by_legs) begin_leg(state, 0);
    return false;
}

void gpu_graphs_end(struct model *model) {
    struct gpu_graphs *graphs = &model->gpu->graphs;
    struct gpu_kept_walk *kept = graphs->step;
    if (!kept) return;
    if (!graphs->by_legs) end_leg(model, 0);
    graphs->step = NULL;
    if (kept->is_captured || model->gpu->status != STATUS_OK) return;
    kept->is_captured = true;
    graphs->captured++;
}

void gpu_graphs_open(struct gpu_graphs *graphs) {
    graphs->most = GPU_GRAPHS_MAX;
}

void gpu_graphs_close(struct gpu_graphs *graphs, struct device *device) {
    for (uint32_t i = 0; i < GPU_WALKS_MAX; i++)
        drop(graphs, &graphs->kept[i], device);
    for (uint32_t i = 0; i < GPU_ROW_BOUNDS; i++)
        device_close_graph(device, graphs->rows[i].graph);
}
