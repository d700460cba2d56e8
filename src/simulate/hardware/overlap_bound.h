/* SPDX-License-Identifier: Apache-2.0
 * A lower bound for all overlap schedules of two lanes (overlap_schedule.h). A lane's stages follow one
 * another, so a table of two lanes only determines how they interleave and how far apart they are.
 * There are few enough such tables to walk all of them. Times are in microseconds.
 */
#ifndef SIMULATE_HARDWARE_OVERLAP_BOUND_H
#define SIMULATE_HARDWARE_OVERLAP_BOUND_H

#include "simulate/hardware/overlap_schedule.h"

#define BOUND_ROWS (2 * STAGE_COUNT)

struct overlap_bound {
    double us, waited;                   /* of the best walk */
    struct overlap_row rows[BOUND_ROWS]; /* its table; lane 0 is one layer ahead */
};

/* The best walk of two lanes of size 0. */
void overlap_bound_find(const struct schedule_work *work, struct overlap_bound *out);

/* The compute time of a table's lanes, and the time of their transfers on the link. */
double overlap_bound_computed(const struct schedule_work *work, uint32_t micro_batches);
double overlap_bound_sent(const struct schedule_work *work, uint32_t micro_batches);

#endif
