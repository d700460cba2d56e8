/* SPDX-License-Identifier: Apache-2.0
 * Walks an overlap table (contract/overlap.h) in virtual time: one processor, which runs stages in
 * the table's order, and one link, which transfers a lane's dispatch and combine one after the
 * other. MLP waits for its lane's dispatch. COMBINE waits for the results of its experts, which
 * leave all at MLP's end, or in waves while it runs.
 *
 * If the table orders lanes dynamically by urgency, the schedule repeats after some layers. For
 * models with many layers a few are walked, with the mean expert times of several layers, and the
 * rest is extrapolated from their pace.
 *
 * One rank represents all of a unit. If ranks differ, a follower receives the order of the stages
 * and walks all ranks (unit_schedule.h). Times are in microseconds.
 */
#ifndef SIMULATE_HARDWARE_OVERLAP_SCHEDULE_H
#define SIMULATE_HARDWARE_OVERLAP_SCHEDULE_H

#include "base/limits.h"
#include "contract/overlap.h"

struct schedule_micro_batch { /* the same in all layers */
    double attention_0, attention_1, shared, dense;
    double send, sum; /* compute times of DISPATCH and COMBINE */
};

struct schedule_layer { /* the experts of a lane's layer; dense layers have none */
    double mlp, dispatch, combine;
};

#define SCHEDULE_EXPERT_BATCHES                                                                    \
    4 /* in which results leave in this engine (compute/exchange/exchange.h) */

#define SCHEDULE_SIZES 2 /* sizes of lanes: a table has large and small ones */

/* Receives each stage in the order of execution, with the layer of its experts. */
struct schedule_follower {
    void (*run)(struct schedule_follower *self, enum stage stage, uint32_t micro_batch,
                uint32_t layer);
    double walked; /* set at the end: how long the stages it received took here. It is less than the
                    * whole time if only a few layers are walked */
};

struct schedule_work {
    uint32_t layers, dense_layers;        /* dense layers are the first ones */
    uint32_t expert_batches;              /* in which results leave; 0: one */
    struct schedule_follower *follower;   /* may be NULL */
    uint8_t sizes[OVERLAP_MICRO_BATCHES]; /* of each lane, below SCHEDULE_SIZES */
    struct schedule_micro_batch micro_batches[SCHEDULE_SIZES];
    struct schedule_layer experts[SCHEDULE_SIZES][LIMIT_LAYERS];
};

/* Returns the time until the last lane has finished. *waited_out: the part of it in which the
 * processor waited for transfers. */
double overlap_schedule(const struct overlap *overlap, const struct schedule_work *work,
                        double *waited_out);

#endif
