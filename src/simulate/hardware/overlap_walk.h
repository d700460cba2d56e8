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
 * One rank stands for all of a unit: each of its stages takes as long as the slowest rank's, as all
 * wait for each other twice a layer. Times are microseconds.
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

#define WALK_SIZES 2 /* of lanes: a table has large and small ones */

struct walk_work {
    uint32_t layers, dense_layers; /* the first ones */
    uint32_t waves;                /* in which results leave; 0: one */
    uint8_t sizes[OVERLAP_LANES];  /* of each lane, below WALK_SIZES */
    struct walk_lane lanes[WALK_SIZES];
    struct walk_layer experts[WALK_SIZES][LIMIT_LAYERS];
};

/* Until the last lane is through; *waited_out: of it, what the processor waited for transfers. */
double overlap_walk(const struct overlap *overlap, const struct walk_work *work,
                    double *waited_out);

#endif
