/* SPDX-License-Identifier: Apache-2.0
 * Sets up the simulator for a run of a candidate fleet (simulate/simulator/size_fleet.h) under a
 * steady load.
 *
 * A fleet for a small load is simulated whole. A large fleet with separate prefill and decode units
 * is simulated one role at a time: a few units of the role serve their share of the load. This
 * works because TTFT depends on the prefill units and TPOT on the decode units. The run for TTFT
 * cuts answers to two tokens, so that KV blocks are still transferred, and lasts long enough for
 * long prompts. In the run for TPOT, prompts take no time. A large fleet of combined units is
 * simulated as one unit.
 *
 * If TPOT is measured, the run starts in a steady state, with requests in the middle of their
 * answers (simulate/simulator/day_load.h), as many as the step clock predicts. While they settle,
 * prompts take no time. Combined units compute the prompts of these requests in the same steps as
 * the answers, so settling takes as many steps as those prompts need.
 */
#pragma once

#include "simulate/simulator/day_load.h"
#include "simulate/simulator/size_growth.h"

struct size_sample { /* the part of a fleet that is simulated */
    enum size_focus focus;
    uint32_t counts[2]; /* number of units of each kind of the fleet */
    double share;       /* their share of the fleet's load */
};

struct size_sample size_window_sample(const struct size_load *load, const struct size_fleet *fleet,
                                      enum size_focus focus);

/* Sets all options except the source, the times and the callbacks. */
void size_window_set_fleet(const struct size_options *options, const struct size_fleet *fleet,
                           const struct size_sample *sample, struct simulator_options *options_out);

/* The moments of the load, for day_load_solve. Without KV storage its hit share is 0. */
struct day_moments size_window_moments(const struct size_options *options, bool storage);

/* Sets the source and the times of the run. If TTFT is measured, the run is longer by the limit of
 * TTFT, because later arrivals cannot be judged. `standing`: running requests of a decode rank in
 * the steady state (size_fleet_standing). `load_out` must live as long as the run. */
void size_window_set_load(const struct size_options *options, const struct size_fleet *fleet,
                          const struct size_sample *sample, const struct day_lengths *lengths,
                          double standing, struct day_load *load_out,
                          struct simulator_options *options_out);
