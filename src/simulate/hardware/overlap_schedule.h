/* SPDX-License-Identifier: Apache-2.0
 * Executes an overlap table (contract/overlap.h) in virtual time. There is one processor, which
 * runs the stages in the order of the table, and one link, which transfers the dispatch and combine
 * of the micro-batches one after the other. MLP waits for the dispatch of its micro-batch. COMBINE
 * waits for the results of its experts. They are sent at the end of MLP, or in expert batches
 * during it.
 *
 * With a dynamic order, the schedule repeats after some layers. For models with many layers only a
 * few layers are executed, with expert times averaged over several layers, and the rest is
 * extrapolated.
 *
 * One rank represents all ranks of the unit. If they differ, a follower receives the order of the
 * stages and applies it to all ranks (unit_schedule.h). Times are in microseconds.
 */
#pragma once

#include "base/limits.h"
#include "contract/overlap.h"

struct schedule_micro_batch { /* times of a micro-batch, the same in all layers */
    double attention_0, attention_1, shared, dense;
    double send, sum; /* compute times of DISPATCH and COMBINE */
};

struct schedule_layer { /* the experts of a micro-batch in one layer; dense layers have none */
    double mlp, dispatch, combine;
};

#define SCHEDULE_EXPERT_BATCHES                                                                    \
    4 /* in which this engine sends results (compute/exchange/exchange.h) */

#define SCHEDULE_SIZES 2 /* a table has large and small micro-batches */

/* Receives each stage in the order of execution. `layer` selects its expert times. */
struct schedule_follower {
    void (*run)(struct schedule_follower *self, enum stage stage, uint32_t micro_batch,
                uint32_t layer);
    /* Set at the end: the total time of the stages it received. It is less than the result if only
     * a few layers are executed. */
    double walked;
};

struct schedule_work {
    uint32_t layers, dense_layers;        /* dense layers are the first ones */
    uint32_t expert_batches;              /* batches of expert results; 0: one */
    struct schedule_follower *follower;   /* may be NULL */
    uint8_t sizes[OVERLAP_MICRO_BATCHES]; /* size of each micro-batch, below SCHEDULE_SIZES */
    struct schedule_micro_batch micro_batches[SCHEDULE_SIZES];
    struct schedule_layer experts[SCHEDULE_SIZES][LIMIT_LAYERS];
};

/* Returns the time at which the last micro-batch is complete. *waited_out is the part of it during
 * which the processor waited for transfers. */
double overlap_schedule(const struct overlap *overlap, const struct schedule_work *work,
                        double *waited_out);
