/* SPDX-License-Identifier: Apache-2.0
 * Walks through the layers that a device keeps as graphs. A walk of generated tokens launches the same, step
 * after step, but for what its kernels read of the device's memory: tokens, positions, pages, and how many
 * tokens there are. So what is put in line for one step holds for each that has no more tokens and no
 * longer contexts than those bounds that were captured with it. The bounds are powers of two: a graph
 * serves all steps between two of them.
 *
 * The first lanes of several have as many tokens as their key says; the last one's are bounded. A walk is
 * captured when its key comes for the second time: then all its kernels have been loaded, and what
 * comes once costs no graph. Only files gpu_*.c include this.
 */
#ifndef COMPUTE_GPU_GPU_GRAPHS_H
#define COMPUTE_GPU_GPU_GRAPHS_H

#include "compute/device/device.h"
#include "contract/overlap.h"

#define GPU_GRAPHS_MAX 32   /* the one that was not used for longest makes way */
#define GPU_GRAPH_KEYS 1024 /* contexts are bounded by this, twice this, and so on */

struct model; /* compute/model/model_state.h */

/* What a walk's launches depend on. */
struct gpu_walk {
    uint32_t number; /* stages_number; never 0 */
    uint32_t lanes, keys_max;
    uint32_t first[OVERLAP_LANES]; /* tokens before the lane's */
    uint32_t rows[OVERLAP_LANES];  /* its tokens at most */
};

struct gpu_kept_walk {
    struct gpu_walk walk;
    struct device_graph *graph; /* NULL: it came once */
    uint64_t used;              /* when it came last; 0: the place is free */
};

struct gpu_graphs {
    struct gpu_kept_walk kept[GPU_GRAPHS_MAX];
    struct gpu_kept_walk *capturing; /* what is put in line goes into its graph */
    bool is_step;                    /* the step's layers are a graph */
    bool off;                        /* all is put in line anew */
    uint64_t walks, captured, launched;
};

/* The step's lanes and their batches are set; `number` as in compute.h, `begin`. Sets the bounds of lanes, and
 * puts the walk in line if there is a graph of it: true. Else it may capture what follows. */
bool gpu_graphs_begin(struct model *model, uint32_t number);
/* Behind the layers, all lanes being joined: what was captured becomes a graph, and is put in line. */
void gpu_graphs_end(struct model *model);

/* No work is in line. */
void gpu_graphs_close(struct gpu_graphs *graphs, struct device *device);

#endif
