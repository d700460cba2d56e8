/* SPDX-License-Identifier: Apache-2.0
 * A candidate fleet (simulate/simulator/size_fleet.h) as options of the simulator, for a steady
 * load.
 *
 * Fleets for small loads are run whole. For large loads and separate roles each role is run alone,
 * a few units of it under their share of the load: TTFT depends on the prefill units and TPOT on
 * the decode units. In a run for prompts answers are cut to two tokens, so that their KV blocks
 * still travel, and the run is long enough for long prompts. In a run for answers prompts take no
 * time. A fleet of combined units is run as one unit.
 *
 * If answers are measured, a run begins with requests in the middle of their answers
 * (simulate/simulator/day_load.h), as many as the step clock predicts. While they settle, prompts
 * take no time. Combined units, which compute those prompts together with their answers, get as
 * many steps as that needs.
 */
#pragma once

#include "simulate/simulator/day_load.h"
#include "simulate/simulator/size_growth.h"

struct size_sample {
    enum size_focus focus;
    uint32_t counts[2]; /* of the fleet's kinds */
    double share;       /* of its load */
};

struct size_sample size_window_sample(const struct size_load *load, const struct size_fleet *fleet,
                                      enum size_focus focus);

/* All options except the source, its times and the callbacks. */
void size_window_fleet(const struct size_options *options, const struct size_fleet *fleet,
                       const struct size_sample *sample, struct simulator_options *options_out);

/* The load's moments, for day_load_solve. */
struct day_moments size_window_moments(const struct size_options *options, bool storage);

/* Sets the source and the times of a steady window. Requests that arrive less than the limit of
 * TTFT before its end cannot be judged. `standing`: requests per decode rank (size_fleet_standing).
 * `load_out` must live as long as the run. */
void size_window_load(const struct size_options *options, const struct size_fleet *fleet,
                      const struct size_sample *sample, const struct day_lengths *lengths,
                      double standing, struct day_load *load_out,
                      struct simulator_options *options_out);
