/* SPDX-License-Identifier: Apache-2.0
 * The expected time of an overlap schedule, from the stage times of a measured sequential step: its
 * table walked in virtual time (simulate/hardware/overlap_schedule.h). A lane has its share of each
 * stage's time, as if smaller products were as efficient, and of the bytes. Times are seconds.
 */
#ifndef BENCH_OVERLAP_EXPECTED_H
#define BENCH_OVERLAP_EXPECTED_H

#include "simulate/hardware/overlap_bound.h"

/* One or several equal sequential steps. */
struct overlap_step_times {
    uint32_t steps, layers, dense_layers;
    double compute;                /* total, including the parts outside of layers */
    double comm, dispatch;         /* time on the link; the part of dispatches */
    double stages[2][STAGE_COUNT]; /* of dense layers, of those with experts; measured over any
                                    * number of steps, as only their ratios count */
    double core;      /* of ATTENTION_1: answers' core attention, which some tables run earlier */
    double in_layers; /* the share of compute that is in stages */
};

struct overlap_expected {
    double seconds, waited;
};

struct overlap_expected overlap_expected_of(const struct overlap_step_times *times,
                                            enum overlap_kind kind);

/* The best walk of two lanes over all places where attention may be cut for it
 * (contract/overlap.h). */
struct overlap_expected_two {
    struct overlap_expected walked;
    uint32_t early_sixteenths;
    struct overlap_row rows[BOUND_ROWS];
};
struct overlap_expected_two overlap_expected_of_two(const struct overlap_step_times *times);

#endif
