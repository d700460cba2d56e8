/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/gpu/gpu_graphs.h"

#include "compute/gpu/gpu_layers.h"

#include <string.h>

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
        bool last = i + 1 == model->lane_count;
        walk.first[i] = first;
        walk.rows[i] = last && count ? least(power_above(count), state->tokens_max - first) : count;
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
    for (uint32_t i = 0; i < GPU_GRAPHS_MAX; i++) {
        struct gpu_kept_walk *kept = &graphs->kept[i];
        if (kept->used && !memcmp(&kept->walk, walk, sizeof *walk)) return kept;
    }
    return NULL;
}

/* In a free place, or that of the walk that has not come for longest. */
static void keep(struct gpu_graphs *graphs, const struct gpu_walk *walk, struct device *device) {
    struct gpu_kept_walk *oldest = &graphs->kept[0];
    for (uint32_t i = 1; i < GPU_GRAPHS_MAX; i++)
        if (graphs->kept[i].used < oldest->used) oldest = &graphs->kept[i];
    device_close_graph(device, oldest->graph);
    *oldest = (struct gpu_kept_walk){.walk = *walk, .used = ++graphs->walks};
}

static void launch(const struct model *model, struct device_graph *graph) {
    struct gpu_state *state = model->gpu;
    device_launch_graph(state->device, state->lanes[0].stream, graph);
    state->graphs.launched++;
}

bool gpu_graphs_begin(struct model *model, uint32_t number) {
    struct gpu_state *state = model->gpu;
    struct gpu_graphs *graphs = &state->graphs;
    graphs->is_step = false;
    set_exact(model);
    if (!number || graphs->off || !model->batch.token_count) return false;
    struct gpu_walk walk = describe(model, number);
    struct gpu_kept_walk *kept = find(graphs, &walk);
    if (!kept) {
        keep(graphs, &walk, state->device);
        return false;
    }
    kept->used = ++graphs->walks;
    graphs->is_step = true;
    if (kept->graph) {
        launch(model, kept->graph);
        return true;
    }
    set_bounds(model, &walk);
    device_begin_capture(state->device, state->lanes[0].stream);
    graphs->capturing = kept;
    return false;
}

void gpu_graphs_end(struct model *model) {
    struct gpu_state *state = model->gpu;
    struct gpu_kept_walk *kept = state->graphs.capturing;
    struct error error;
    if (!kept) return;
    state->graphs.capturing = NULL;
    enum status status =
        device_end_capture(state->device, state->lanes[0].stream, &kept->graph, &error);
    gpu_state_note(state, status, &error);
    if (status != STATUS_OK) return;
    state->graphs.captured++;
    launch(model, kept->graph);
}

void gpu_graphs_close(struct gpu_graphs *graphs, struct device *device) {
    for (uint32_t i = 0; i < GPU_GRAPHS_MAX; i++)
        device_close_graph(device, graphs->kept[i].graph);
}
