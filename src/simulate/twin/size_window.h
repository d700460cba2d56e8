/* SPDX-License-Identifier: Apache-2.0
 * A candidate fleet (simulate/twin/size_fleet.h) as options of the twin, for a steady load. Units
 * apart begin with requests in the middle of their answers (simulate/twin/day_load.h), as many as
 * the step clock says. Combined units would have to compute those prompts among their answers, so
 * they begin empty and are given the time of some mean answers to fill.
 *
 * Small fleets are run whole. Of large ones a sample is run: one or a few units of the role that
 * has fewer, and of the other as many as belong to them, rounded down, on the share of the load
 * that the fewer ones have. So a sample never has more units for its load than the fleet has.
 */
#ifndef SIMULATE_TWIN_SIZE_WINDOW_H
#define SIMULATE_TWIN_SIZE_WINDOW_H

#include "simulate/twin/day_load.h"
#include "simulate/twin/size_fleet.h"

#define SIZE_WINDOW_RANKS 288 /* fleets of more are sampled */

struct size_sample {
    uint32_t counts[2]; /* of the fleet's kinds */
    double share;       /* of its load */
};

struct size_sample size_window_sample(const struct size_fleet *fleet);

/* Everything but the source, its times and who listens. */
void size_window_fleet(const struct size_options *options, const struct size_fleet *fleet,
                       const struct size_sample *sample, struct twin_options *options_out);

/* The load's moments, for day_load_solve. */
struct day_moments size_window_moments(const struct size_options *options, bool storage);

/* Source and times of a steady window. `standing`: requests of a rank that answers
 * (size_fleet_standing). `load_out` lives as long as the run. */
void size_window_load(const struct size_options *options, const struct size_fleet *fleet,
                      const struct size_sample *sample, const struct day_lengths *lengths,
                      double standing, struct day_load *load_out, struct twin_options *options_out);

#endif
