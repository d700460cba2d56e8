/* SPDX-License-Identifier: Apache-2.0
 * An overlap table (contract/overlap.h) walked in virtual time: one processor, which runs stages in
 * the table's order, and one link, which carries a lane's dispatch and combine one after the other.
 * MLP waits until its lane's dispatch is there, COMBINE for what its experts sent back: all at MLP's
 * end, or in waves while it runs.
 *
 * Where lanes go abreast by urgency, a table repeats itself after some layers: of models with many,
 * a few are walked, with the experts' times of several layers on average, and the rest follows from
 * their pace.
 *
 * One rank stands for all of a unit. Where ranks differ, a follower takes the order of the stages
 * from here and walks all of them (unit_walk.h). Times are microseconds.
 */
#ifndef SIMULATE_HARDWARE_OVERLAP_WALK_H
#define SIMULATE_HARDWARE_OVERLAP_WALK_H

#include "base/limits.h"
#include "contract/overlap.h"

struct walk_lane { /* the same in all layers */
    double attention_0, attention_1, shared, dense;
    double send, sum; /* what DISPATCH and COMBINE compute themselves */
};

struct walk_layer { /* of a lane, its experts; dense layers have none */
    double mlp, dispatch, combine;
};

#define WALK_WAVES 4 /* in which results leave in this engine (compute/exchange/exchange.h) */

#define WALK_SIZES 2 /* of lanes: a table has large and small ones */

/* Is told of each stage in the order in which it runs, with the layer whose experts it has. */
struct walk_follower {
    void (*run)(struct walk_follower *self, enum stage stage, uint32_t lane, uint32_t layer);
    double walked; /* set at the end: how long the stages that it was told of took here. It is less
                    * than the whole where only a few layers are walked */
};

struct walk_work {
    uint32_t layers, dense_layers;  /* the first ones */
    uint32_t waves;                 /* in which results leave; 0: one */
    struct walk_follower *follower; /* NULL: nobody is told */
    uint8_t sizes[OVERLAP_LANES];   /* of each lane, below WALK_SIZES */
    struct walk_lane lanes[WALK_SIZES];
    struct walk_layer experts[WALK_SIZES][LIMIT_LAYERS];
};

/* Until the last lane is through; *waited_out: of it, what the processor waited for transfers. */
double overlap_walk(const struct overlap *overlap, const struct walk_work *work,
                    double *waited_out);

#endif
