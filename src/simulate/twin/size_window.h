/* SPDX-License-Identifier: Apache-2.0
 * A candidate fleet (simulate/twin/size_fleet.h) as options of the twin, for a steady load.
 *
 * Fleets for small loads are run whole. For large loads and units apart each role is run for itself, a few units
 * of it on their share of the load: TTFT comes of the prefill units and TPOT of the decode units. For
 * prompts answers are cut to two tokens, so that their KV blocks still travel, and prompts that take
 * long have the time to be there; for answers prompts take no time. Of combined units one is
 * run.
 *
 * Where answers matter a run begins with requests in the middle of theirs (simulate/twin/day_load.h),
 * as many as the step clock says. While they settle prompts take no time; combined units, which
 * compute those prompts among their answers, are given as many steps as that needs.
 */
#ifndef SIMULATE_TWIN_SIZE_WINDOW_H
#define SIMULATE_TWIN_SIZE_WINDOW_H

#include "simulate/twin/day_load.h"
#include "simulate/twin/size_growth.h"

struct size_sample {
    enum size_focus focus;
    uint32_t counts[2]; /* of the fleet's kinds */
    double share;       /* of its load */
};

struct size_sample size_window_sample(const struct size_load *load, const struct size_fleet *fleet,
                                      enum size_focus focus);

/* Everything but the source, its times and who listens. */
void size_window_fleet(const struct size_options *options, const struct size_fleet *fleet,
                       const struct size_sample *sample, struct twin_options *options_out);

/* The load's moments, for day_load_solve. */
struct day_moments size_window_moments(const struct size_options *options, bool storage);

/* Source and times of a steady window; requests that come less than the limit of TTFT before its end
 * cannot be judged. `standing`: requests of a rank that answers
 * (size_fleet_standing). `load_out` lives as long as the run. */
void size_window_load(const struct size_options *options, const struct size_fleet *fleet,
                      const struct size_sample *sample, const struct day_lengths *lengths,
                      double standing, struct day_load *load_out, struct twin_options *options_out);

#endif
