/* SPDX-License-Identifier: Apache-2.0
 * Steps through the layers, captured as graphs. A step of generated tokens launches the same kernels
 * again and again; only their data in the device's memory differs: tokens, positions, pages, and the
 * number of tokens. So a captured step serves every step with no more tokens and no longer contexts
 * than its bounds. The bounds are powers of two: a graph serves all steps between two of them.
 *
 * A captured step consists of segments, each a graph. Without ranks it is one segment for all
 * micro-batches. With ranks the host stops within each layer, to deal tokens and to receive results, and
 * enqueues the work that depends on other ranks' tokens itself. A segment is then the work of one
 * micro-batch's stream between two stops. Generated tokens of a micro-batch do not depend on other
 * micro-batches, so segments wait for no other stream, and the order of micro-batches may change from
 * step to step. Segments of several micro-batches may be captured at the same time, but none while the
 * host waits.
 *
 * Experts compute received rows. Their launches do not depend on the layer, and the host writes the
 * number of rows and their slots in a list. So they are one segment for all layers and micro-batches,
 * kept for each power of two of rows.
 *
 * The first of several micro-batches have exactly the tokens in their key; the last one that has any is
 * bounded. A step is captured when its key occurs for the second time: then all its kernels are loaded,
 * and a single occurrence costs no graph. Only files gpu_*.c include this.
 */
#ifndef COMPUTE_GPU_GPU_GRAPHS_H
#define COMPUTE_GPU_GPU_GRAPHS_H

#include "compute/gpu/gpu_state.h"
#include "contract/overlap.h"

#define GPU_CAPTURED_STEPS_MAX 32 /* the one that was not used for longest makes way */
#define GPU_GRAPHS_MAX 8192       /* of all walks: likewise */
#define GPU_GRAPH_KEYS 1024       /* contexts are bounded by this, twice this, and so on */
#define GPU_ROW_BOUNDS 32         /* powers of two, of rows that came */

/* The values on which the launches of a step depend. */
struct gpu_step_shape {
    uint32_t number; /* stages_number; never 0 */
    uint32_t micro_batches, keys_max;
    uint32_t first[OVERLAP_MICRO_BATCHES]; /* tokens before the micro-batch's, if it has any */
    uint32_t rows[OVERLAP_MICRO_BATCHES];  /* its tokens at most */
};

struct gpu_segment {
    struct device_graph *graph;
    uint32_t micro_batch; /* runs on its stream */
    uint32_t first,
        end; /* of the micro-batch's calls of gpu_graphs_enter in the walk: [first, end) */
};

struct gpu_captured_step {
    struct gpu_step_shape step_shape;
    struct gpu_segment *segments; /* [segment_count] a micro-batch's in its order */
    uint32_t segment_count, segment_room;
    bool is_captured; /* else it came once */
    uint64_t used;    /* when it came last; 0: the place is free */
};

struct gpu_kept_rows {          /* experts of rows that came, of any layer and micro-batch */
    struct device_graph *graph; /* NULL: none was captured */
    bool came;
};

struct gpu_step_cursor { /* a micro-batch's way through the step's walk */
    uint32_t calls;      /* of gpu_graphs_enter */
    uint32_t next;       /* the first segment that may be the micro-batch's next */
    uint32_t first;      /* call of the segment that is captured */
    bool captures;
};

struct gpu_graphs {
    struct gpu_captured_step kept[GPU_CAPTURED_STEPS_MAX];
    struct gpu_captured_step
        *step; /* the walk that is being captured, or enqueued by its segments; else NULL */
    struct gpu_step_cursor cursors[OVERLAP_MICRO_BATCHES];
    struct gpu_kept_rows rows[GPU_ROW_BOUNDS]; /* of at most 1, 2, 4 and so on */
    bool by_segments; /* the step's tokens are exchanged with other ranks */
    bool is_step;     /* the step's layers are graphs */
    bool
        takes_rows; /* others' rows may be computed by graphs, whether or not the rank has tokens */
    bool off;       /* all is put in line anew */
    uint32_t count, most; /* graphs of walks that are kept; room for them */
    uint64_t walks, captured,
        replayed;      /* steps that might be graphs; were captured; were put in line as such */
    uint64_t launched; /* graphs */
};

/* Behind gpu_state_open; on any status close it. */
enum status gpu_graphs_open(struct model *model, struct error *error);
/* The step's micro-batches and their batches are set; `number` as in compute.h, `begin`. Sets the
 * bounds of micro-batches, and puts the walk in line if there is a graph of all of it: true. Else
 * it may capture what follows, or put it in line by segments. */
bool gpu_graphs_begin(struct model *model, uint32_t number);
/* Before a stage puts its work in line on a micro-batch's stream. False: it is in a segment that is
 * in line already, and is left out. */
bool gpu_graphs_enter(struct model *model, uint32_t micro_batch);
/* For the pass's micro-batch. */
static inline bool gpu_micro_batch_enter(const struct pass *pass) {
    return gpu_graphs_enter(pass->model, (uint32_t)gpu_micro_batch_number(pass));
}
/* Segments end: the host waits, or puts in line on a micro-batch's stream what no segment has. */
void gpu_graphs_stop(struct model *model);
/* Experts of `count` rows that came to the rank, computed together: as many rows as a graph is to
 * be for, of at most `most`. 0: the step is none that has graphs. */
uint32_t gpu_graphs_rows(const struct model *model, uint32_t count, uint32_t most);
/* They are put in line on the micro-batch's stream, if there is a graph of so many: true. Else what
 * follows until the end may be captured. */
bool gpu_graphs_begin_rows(struct model *model, uint32_t micro_batch, uint32_t rows);
void gpu_graphs_end_rows(struct model *model, uint32_t micro_batch, uint32_t rows);
/* Behind the layers, all micro-batches being joined: what was captured is kept, and is in line. */
void gpu_graphs_end(struct model *model);

/* No work is in line. */
void gpu_graphs_close(struct model *model);

#endif
