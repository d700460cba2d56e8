/* SPDX-License-Identifier: Apache-2.0
 * Walks through the layers that a device keeps as graphs. A walk of generated tokens launches the
 * same, step after step, but for what its kernels read of the device's memory: tokens, positions,
 * pages, and how many tokens there are. So what is put in line for one step holds for each that has
 * no more tokens and no longer contexts than those bounds that were captured with it. The bounds
 * are powers of two: a graph serves all steps between two of them.
 *
 * A walk is kept as legs, each a graph. Alone, a rank's walk is one leg, of all lanes. Among ranks
 * the host stops within each layer, as it deals tokens and receives results, and enqueues anew what
 * depends on other ranks' tokens. A leg then is what one lane's stream is given between two stops.
 * Generated tokens of a lane see no other lane's, so legs wait for no other stream, and each lane's
 * may come whenever the schedule comes to it: of a step's lanes the order may be another each time.
 * Legs of several lanes may be captured at the same time, but none while the host waits.
 *
 * Experts are computed of rows that came from anywhere. Nothing that such launches are given
 * depends on the layer, and how many rows there are, and of which slots, the host writes in a list.
 * So they are one leg of all layers and lanes, kept for each power of two of rows.
 *
 * The first lanes of several have as many tokens as their key says; those of the last one that has
 * any are bounded. A walk is captured when its key comes for the second time: then all its kernels
 * have been loaded, and what comes once costs no graph. Only files gpu_*.c include this.
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
    uint32_t first[OVERLAP_MICRO_BATCHES]; /* tokens before the lane's, if it has any */
    uint32_t rows[OVERLAP_MICRO_BATCHES];  /* its tokens at most */
};

struct gpu_segment {
    struct device_graph *graph;
    uint32_t micro_batch; /* runs on its stream */
    uint32_t first, end;  /* of the lane's calls of gpu_graphs_enter in the walk: [first, end) */
};

struct gpu_captured_step {
    struct gpu_step_shape step_shape;
    struct gpu_segment *segments; /* [segment_count] a lane's in its order */
    uint32_t segment_count, segment_room;
    bool is_captured; /* else it came once */
    uint64_t used;    /* when it came last; 0: the place is free */
};

struct gpu_kept_rows {          /* experts of rows that came, of any layer and lane */
    struct device_graph *graph; /* NULL: none was captured */
    bool came;
};

struct gpu_step_cursor { /* a lane's way through the step's walk */
    uint32_t calls;      /* of gpu_graphs_enter */
    uint32_t next;       /* the first leg that may be the lane's next */
    uint32_t first;      /* call of the leg that is captured */
    bool captures;
};

struct gpu_graphs {
    struct gpu_captured_step kept[GPU_CAPTURED_STEPS_MAX];
    struct gpu_captured_step
        *step; /* the walk that is being captured, or enqueued by its legs; else NULL */
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
/* The step's lanes and their batches are set; `number` as in compute.h, `begin`. Sets the bounds of
 * lanes, and puts the walk in line if there is a graph of all of it: true. Else it may capture what
 * follows, or put it in line by legs. */
bool gpu_graphs_begin(struct model *model, uint32_t number);
/* Before a stage puts its work in line on a lane's stream. False: it is in a leg that is in line
 * already, and is left out. */
bool gpu_graphs_enter(struct model *model, uint32_t micro_batch);
/* For the pass's lane. */
static inline bool gpu_micro_batch_enter(const struct pass *pass) {
    return gpu_graphs_enter(pass->model, (uint32_t)gpu_micro_batch_number(pass));
}
/* Legs end: the host waits, or puts in line on a lane's stream what no leg has. */
void gpu_graphs_stop(struct model *model);
/* Experts of `count` rows that came to the rank, computed together: as many rows as a graph is to
 * be for, of at most `most`. 0: the step is none that has graphs. */
uint32_t gpu_graphs_rows(const struct model *model, uint32_t count, uint32_t most);
/* They are put in line on the lane's stream, if there is a graph of so many: true. Else what
 * follows until the end may be captured. */
bool gpu_graphs_begin_rows(struct model *model, uint32_t micro_batch, uint32_t rows);
void gpu_graphs_end_rows(struct model *model, uint32_t micro_batch, uint32_t rows);
/* Behind the layers, all lanes being joined: what was captured is kept, and is in line. */
void gpu_graphs_end(struct model *model);

/* No work is in line. */
void gpu_graphs_close(struct model *model);

#endif
