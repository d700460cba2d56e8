/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/gpu/gpu_graphs.h"

#include "base/check.h"
#include "compute/exchange/exchange.h"

#include <stdlib.h>
#include <string.h>

/* The most segments of a micro-batch in a layer: they end between stages, and one stage has no
 * launch. */
#define SEGMENTS_OF_LAYER (STAGE_COUNT - 1)

static uint32_t gpu_graphs_least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* The smallest power of two that is at least `count`. */
static uint32_t power_above(uint32_t count) {
    uint32_t power = 1;
    while (power < count)
        power *= 2;
    return power;
}

/* Sets exact sizes, for a step without graphs. */
static void set_exact(struct model *model) {
    for (uint32_t i = 0; i < model->micro_batch_count; i++) {
        struct gpu_micro_batch *micro_batch = &model->gpu->micro_batches[i];
        micro_batch->rows = model->micro_batches[i].batch.token_count;
        micro_batch->live = NULL;
        micro_batch->keys_max = 0;
    }
}

static struct gpu_step_shape gpu_graphs_describe(const struct model *model, uint32_t number) {
    const struct gpu_state *state = model->gpu;
    struct gpu_step_shape step_shape;
    memset(&step_shape, 0, sizeof step_shape); /* shapes are compared byte by byte */
    step_shape.number = number;
    step_shape.micro_batches = model->micro_batch_count;
    for (uint32_t i = 0; i < model->micro_batch_count; i++) {
        uint32_t count = model->micro_batches[i].batch.token_count,
                 first = model->micro_batches[i].first;
        bool last = first + count == model->batch.token_count;
        if (!count) continue;
        step_shape.first[i] = first;
        step_shape.rows[i] =
            last ? gpu_graphs_least(power_above(count), state->tokens_max - first) : count;
    }
    uint32_t parts = (uint32_t)divide_up(gpu_state_most_keys(&model->batch), GPU_GRAPH_KEYS);
    step_shape.keys_max =
        gpu_graphs_least(power_above(parts) * GPU_GRAPH_KEYS, state->positions_max + 1);
    return step_shape;
}

static void set_bounds(struct model *model, const struct gpu_step_shape *step_shape) {
    for (uint32_t i = 0; i < step_shape->micro_batches; i++) {
        struct gpu_micro_batch *micro_batch = &model->gpu->micro_batches[i];
        micro_batch->rows = step_shape->rows[i];
        micro_batch->live = micro_batch->batch.live + 1 + i;
        micro_batch->keys_max = step_shape->keys_max;
    }
}

/* The captured step with this shape, or NULL. */
static struct gpu_captured_step *find(struct gpu_graphs *graphs,
                                      const struct gpu_step_shape *step_shape) {
    for (uint32_t i = 0; i < GPU_CAPTURED_STEPS_MAX; i++) {
        struct gpu_captured_step *kept = &graphs->kept[i];
        if (kept->used && !memcmp(&kept->step_shape, step_shape, sizeof *step_shape)) return kept;
    }
    return NULL;
}

/* Drops a captured step. */
static void gpu_graphs_drop(struct gpu_graphs *graphs, struct gpu_captured_step *kept,
                            struct device *device) {
    for (uint32_t i = 0; i < kept->segment_count; i++)
        device_close_graph(device, kept->segments[i].graph);
    graphs->count -= kept->segment_count;
    free(kept->segments);
    *kept = (struct gpu_captured_step){0};
}

/* An unused place, or the least recently used step; with `captured`, among those with graphs. */
static struct gpu_captured_step *gpu_graphs_oldest(struct gpu_graphs *graphs, bool captured) {
    struct gpu_captured_step *found = NULL;
    for (uint32_t i = 0; i < GPU_CAPTURED_STEPS_MAX; i++) {
        struct gpu_captured_step *kept = &graphs->kept[i];
        if (captured && !kept->segment_count) continue;
        if (!found || kept->used < found->used) found = kept;
    }
    return found;
}

static void gpu_graphs_keep(struct gpu_graphs *graphs, const struct gpu_step_shape *step_shape,
                            struct device *device) {
    struct gpu_captured_step *kept = gpu_graphs_oldest(graphs, false);
    gpu_graphs_drop(graphs, kept, device);
    *kept = (struct gpu_captured_step){.step_shape = *step_shape, .used = ++graphs->walks};
}

/* Allocates the list of segments for a step of at most `most`, and drops old steps to stay within
 * the limit of graphs. False: memory is out. */
static bool gpu_graphs_reserve(const struct model *model, struct gpu_captured_step *kept,
                               uint32_t most) {
    struct gpu_graphs *graphs = model->gpu->graphs;
    check(most);
    while (graphs->count && graphs->count + most > graphs->most)
        gpu_graphs_drop(graphs, gpu_graphs_oldest(graphs, true), model->gpu->device);
    kept->segments = calloc(most, sizeof *kept->segments);
    kept->segment_capacity = most;
    return kept->segments;
}

/* ---- segments ---- */

static void gpu_graphs_launch(const struct model *model, struct device_graph *graph,
                              uint32_t micro_batch) {
    struct gpu_state *state = model->gpu;
    device_launch_graph(state->device, state->micro_batches[micro_batch].stream, graph);
    state->graphs->launched++;
}

static void begin_segment(struct gpu_state *state, uint32_t micro_batch) {
    struct gpu_step_cursor *cursor = &state->graphs->cursors[micro_batch];
    device_begin_capture(state->device, state->micro_batches[micro_batch].stream);
    cursor->captures = true;
    cursor->first = cursor->calls;
}

/* Ends a capture and launches its graph. NULL: the capture failed. */
static struct device_graph *gpu_graphs_end_capture(struct model *model, uint32_t micro_batch) {
    struct gpu_state *state = model->gpu;
    struct device_graph *graph;
    struct error error;
    state->graphs->cursors[micro_batch].captures = false;
    enum status status =
        device_end_capture(state->device, state->micro_batches[micro_batch].stream, &graph, &error);
    gpu_state_note(state, status, &error);
    if (status != STATUS_OK) return NULL;
    gpu_graphs_launch(model, graph, micro_batch);
    return graph;
}

static void end_segment(struct model *model, uint32_t micro_batch) {
    struct gpu_graphs *graphs = model->gpu->graphs;
    struct gpu_captured_step *kept = graphs->step;
    const struct gpu_step_cursor *cursor = &graphs->cursors[micro_batch];
    struct gpu_segment segment = {gpu_graphs_end_capture(model, micro_batch), micro_batch,
                                  cursor->first, cursor->calls};
    if (!segment.graph) return;
    check(kept->segment_count < kept->segment_capacity);
    kept->segments[kept->segment_count++] = segment;
    graphs->count++;
}

bool gpu_graphs_enter(struct model *model, uint32_t micro_batch) {
    struct gpu_graphs *graphs = model->gpu->graphs;
    const struct gpu_captured_step *kept = graphs->step;
    struct gpu_step_cursor *cursor = &graphs->cursors[micro_batch];
    if (!kept || !graphs->by_segments) return true;
    if (!kept->is_captured) {
        if (!cursor->captures) begin_segment(model->gpu, micro_batch);
        cursor->calls++;
        return true;
    }
    while (cursor->next < kept->segment_count &&
           kept->segments[cursor->next].micro_batch != micro_batch)
        cursor->next++;
    check(cursor->next < kept->segment_count);
    const struct gpu_segment *segment = &kept->segments[cursor->next];
    if (cursor->calls == segment->first) gpu_graphs_launch(model, segment->graph, micro_batch);
    if (++cursor->calls == segment->end) cursor->next++;
    return false;
}

void gpu_graphs_stop(struct model *model) {
    struct gpu_graphs *graphs = model->gpu->graphs;
    for (uint32_t micro_batch = 0; graphs->by_segments && micro_batch < model->micro_batch_count;
         micro_batch++)
        if (graphs->cursors[micro_batch].captures) end_segment(model, micro_batch);
}

/* ---- received rows ---- */

static struct gpu_kept_rows *kept_rows(struct model *model, uint32_t rows) {
    uint32_t power = 0;
    while (UINT32_C(1) << power < rows)
        power++;
    check(power < GPU_ROW_BOUNDS);
    return &model->gpu->graphs->rows[power];
}

uint32_t gpu_graphs_rows(const struct model *model, uint32_t count, uint32_t most) {
    return model->gpu->graphs->takes_rows ? gpu_graphs_least(power_above(count), most) : 0;
}

/* No segment is being captured: the host has just waited. */
bool gpu_graphs_begin_rows(struct model *model, uint32_t micro_batch, uint32_t rows) {
    struct gpu_kept_rows *kept = kept_rows(model, rows);
    if (kept->graph) gpu_graphs_launch(model, kept->graph, micro_batch);
    if (!kept->graph && kept->came) begin_segment(model->gpu, micro_batch);
    kept->came = true;
    return kept->graph;
}

void gpu_graphs_end_rows(struct model *model, uint32_t micro_batch, uint32_t rows) {
    if (model->gpu->graphs->cursors[micro_batch].captures)
        kept_rows(model, rows)->graph = gpu_graphs_end_capture(model, micro_batch);
}

/* ---- steps ---- */

bool gpu_graphs_begin(struct model *model, uint32_t number) {
    struct gpu_state *state = model->gpu;
    struct gpu_graphs *graphs = state->graphs;
    graphs->is_step = false;
    graphs->by_segments = exchange_moves_rows(model->micro_batches[0].exchange);
    graphs->takes_rows = number && !graphs->off && state->status == STATUS_OK;
    set_exact(model);
    if (!graphs->takes_rows || !model->batch.token_count) return false;
    struct gpu_step_shape step_shape = gpu_graphs_describe(model, number);
    struct gpu_captured_step *kept = find(graphs, &step_shape);
    if (!kept) {
        gpu_graphs_keep(graphs, &step_shape, state->device);
        return false;
    }
    kept->used = ++graphs->walks;
    uint32_t most = graphs->by_segments
                        ? model->micro_batch_count * SEGMENTS_OF_LAYER * model->shape->layers
                        : 1;
    if (!kept->is_captured && !gpu_graphs_reserve(model, kept, most)) return false;
    graphs->is_step = true;
    graphs->replayed += kept->is_captured;
    if (kept->is_captured && !graphs->by_segments) {
        gpu_graphs_launch(model, kept->segments[0].graph, 0);
        return true;
    }
    set_bounds(model, &step_shape);
    graphs->step = kept;
    memset(graphs->cursors, 0, sizeof graphs->cursors);
    if (!kept->is_captured && !graphs->by_segments) begin_segment(state, 0);
    return false;
}

void gpu_graphs_end(struct model *model) {
    struct gpu_graphs *graphs = model->gpu->graphs;
    struct gpu_captured_step *kept = graphs->step;
    if (!kept) return;
    if (!graphs->by_segments) end_segment(model, 0);
    graphs->step = NULL;
    if (kept->is_captured || model->gpu->status != STATUS_OK) return;
    kept->is_captured = true;
    graphs->captured++;
}

enum status gpu_graphs_open(struct model *model, struct error *error) {
    struct gpu_graphs *graphs = model->gpu->graphs = calloc(1, sizeof *graphs);
    if (!graphs) return error_set(error, STATUS_NO_MEMORY, "no memory for the device's graphs");
    graphs->most = GPU_GRAPHS_MAX;
    return STATUS_OK;
}

void gpu_graphs_close(struct model *model) {
    struct gpu_graphs *graphs = model->gpu ? model->gpu->graphs : NULL;
    struct device *device = model->device;
    if (!graphs) return;
    for (uint32_t i = 0; i < GPU_CAPTURED_STEPS_MAX; i++)
        gpu_graphs_drop(graphs, &graphs->kept[i], device);
    for (uint32_t i = 0; i < GPU_ROW_BOUNDS; i++)
        device_close_graph(device, graphs->rows[i].graph);
    free(graphs);
    model->gpu->graphs = NULL;
}
