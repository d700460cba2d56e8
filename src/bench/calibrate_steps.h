/* SPDX-License-Identifier: Apache-2.0
 * Times steps of the engine as it serves: step plans go to all ranks' engines, which choose tokens
 * too. Shapes are timed in turn, round by round, so that what the machine does meanwhile meets all
 * of them; a shape's time is the median of its rounds.
 *
 * Prompts and contexts are random tokens. All pages are filled with rows of such prompts first, so
 * that contexts are read from memory as when serving.
 */
#ifndef BENCH_CALIBRATE_STEPS_H
#define BENCH_CALIBRATE_STEPS_H

#include "bench/calibrate_shapes.h"
#include "host/engine/lanes.h"
#include "host/engine/rank_group.h"

#define CALIBRATE_ROUNDS_MAX 99

struct calibrate_step {
    struct calibrate_shape shape;
    double us;         /* median over rounds, from a step's begin to its end */
    double low, high;  /* quartiles */
};

/* Borrows the group, whose engines are open with room for the limits, the pages of limits->rows_max
 * sequences included. steps_out[CALIBRATE_SHAPES_MAX]. STATUS_NO_MEMORY; STATUS_INVALID when the
 * engine refuses a plan. */
enum status calibrate_steps_run(struct rank_group *group, const char *schedule,
                                const struct calibrate_limits *limits, uint32_t rounds,
                                struct calibrate_step *steps_out, uint32_t *count_out,
                                struct error *error) MUST_USE;

#endif
