/* SPDX-License-Identifier: Apache-2.0
 * Steps captured as CUDA graphs. A step of generated tokens launches the same kernels again and
 * again. Only data in device memory differ: tokens, positions, pages, and the number of tokens. So
 * a captured step serves every step within its bounds of tokens and context lengths. The bounds are
 * powers of two.
 *
 * A captured step consists of segments, each a graph. With one rank the step is one segment for all
 * micro-batches. With several ranks the host stops within each layer to dispatch tokens and to
 * receive results, and itself enqueues the work that depends on other ranks' tokens. A segment is
 * then the work of one micro-batch's stream between two stops. Generated tokens of a micro-batch do
 * not depend on other micro-batches. So segments wait for no other stream, and the order of micro-
 * batches may change from step to step. Segments of several micro-batches may be captured at the
 * same time, but none while the host waits.
 *
 * Received rows are computed by experts. Those launches do not depend on the layer, and the host
 * writes the number of rows and their slots to a list. So there is one segment for all layers and
 * micro-batches, for each power of two of rows.
 *
 * All micro-batches but the last one with tokens must match the captured number of tokens exactly;
 * the last one is bounded. A step is captured when its shape occurs for the second time. By then
 * all its kernels are loaded, and a single occurrence costs no graph. Only files gpu_*.c include
 * this.
 */
#pragma once

#include "compute/gpu/gpu_state.h"
#include "contract/overlap.h"

#define GPU_CAPTURED_STEPS_MAX 32 /* the least recently used one is replaced */
#define GPU_GRAPHS_MAX                                                                             \
    8192 /* of all captured steps; beyond it the least recently used step is dropped */
#define GPU_GRAPH_KEYS 1024 /* context bounds are this times a power of two */
#define GPU_ROW_BOUNDS 32   /* bounds of received rows: powers of two */

/* The values that determine the launches of a step. */
struct gpu_step_shape {
    uint32_t number; /* stages_number; not 0 */
    uint32_t micro_batches, keys_max;
    uint32_t first[OVERLAP_MICRO_BATCHES]; /* tokens before the micro-batch's, if it has any */
    uint32_t rows[OVERLAP_MICRO_BATCHES];  /* upper bound of its tokens */
};

struct gpu_segment {
    struct device_graph *graph;
    uint32_t micro_batch; /* the stream on which it runs */
    uint32_t first, end;  /* range of the micro-batch's calls of gpu_graphs_enter: [first, end) */
};

struct gpu_captured_step {
    struct gpu_step_shape step_shape;
    struct gpu_segment *segments; /* [segment_count] those of one micro-batch in order */
    uint32_t segment_count, segment_capacity;
    bool is_captured; /* else it has occurred once */
    uint64_t used;    /* last occurrence; 0: unused */
};

struct gpu_kept_rows {          /* experts of received rows, of any layer and micro-batch */
    struct device_graph *graph; /* NULL: not captured */
    bool came;
};

struct gpu_step_cursor { /* a micro-batch's position in the step */
    uint32_t calls;      /* calls of gpu_graphs_enter so far */
    uint32_t next;       /* where to search for the micro-batch's next segment */
    uint32_t first;      /* first call of the segment that is being captured */
    bool captures;
};

struct gpu_graphs {
    struct gpu_captured_step kept[GPU_CAPTURED_STEPS_MAX];
    struct gpu_captured_step
        *step; /* the step that is being captured, or replayed by segments; else NULL */
    struct gpu_step_cursor cursors[OVERLAP_MICRO_BATCHES];
    struct gpu_kept_rows rows[GPU_ROW_BOUNDS]; /* of at most 1, 2, 4 ... rows */
    bool by_segments;                          /* several ranks: the step is captured in segments */
    bool is_step;                              /* the step is captured or replayed */
    bool takes_rows;                           /* received rows may be computed by graphs */
    bool off;                                  /* graphs are not used */
    uint32_t count, most;                      /* graphs of captured steps: number and limit */
    uint64_t walks, captured, replayed;        /* steps: eligible, captured, and replayed */
    uint64_t launched;                         /* graphs launched */
};

/* After gpu_state_open. Close it on any status. */
enum status gpu_graphs_open(struct model *model, struct error *error);
/* Begins a step; its micro-batches and their batches are set. `number` as in compute.h, `begin`.
 * Sets the bounds of micro-batches. True: a graph of the whole step was launched. Otherwise what
 * follows may be captured or replayed by segments. */
bool gpu_graphs_begin(struct model *model, uint32_t number);
/* Called before a stage enqueues work on a micro-batch's stream. False: a segment that is launched
 * contains the work, and the stage must skip it. */
bool gpu_graphs_enter(struct model *model, uint32_t micro_batch);
/* The same for the pass's micro-batch. */
static inline bool gpu_micro_batch_enter(const struct pass *pass) {
    return gpu_graphs_enter(pass->model, (uint32_t)gpu_micro_batch_number(pass));
}
/* Ends the segments, before the host waits or enqueues work that belongs to no segment. */
void gpu_graphs_stop(struct model *model);
/* The number of rows, at most `most`, for which a graph computes `count` received rows together. 0:
 * the step uses no graphs. */
uint32_t gpu_graphs_rows(const struct model *model, uint32_t count, uint32_t most);
/* True: a graph of this many rows was launched on the micro-batch's stream. Otherwise the work
 * until gpu_graphs_end_rows may be captured. */
bool gpu_graphs_begin_rows(struct model *model, uint32_t micro_batch, uint32_t rows);
void gpu_graphs_end_rows(struct model *model, uint32_t micro_batch, uint32_t rows);
/* Ends a step after its layers, when all micro-batches are joined: keeps what was captured, and
 * launches it. */
void gpu_graphs_end(struct model *model);

/* No work is enqueued. */
void gpu_graphs_close(struct model *model);
