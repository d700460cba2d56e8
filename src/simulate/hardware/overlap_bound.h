/* SPDX-License-Identifier: Apache-2.0
 * What no overlap schedule of two lanes can go below (overlap_walk.h): a lane's stages follow each
 * other, so a table of two lanes says how they interleave and how far they are apart. There are few
 * enough such tables to walk all of them. Times are microseconds.
 */
#ifndef SIMULATE_HARDWARE_OVERLAP_BOUND_H
#define SIMULATE_HARDWARE_OVERLAP_BOUND_H

#include "simulate/hardware/overlap_walk.h"

#define BOUND_ROWS (2 * STAGE_COUNT)

struct overlap_bound {
    double us, waited;                   /* of the best walk */
    struct overlap_row rows[BOUND_ROWS]; /* its table; lane 0 begins a layer in front */
};

/* The best walk of two lanes of size 0. */
void overlap_bound_find(const struct walk_work *work, struct overlap_bound *out);

/* What the lanes of a table compute, and what the link carries for them. */
double overlap_bound_computed(const struct walk_work *work, uint32_t lanes);
double overlap_bound_carried(const struct walk_work *work, uint32_t lanes);

#endif
