/* SPDX-License-Identifier: Apache-2.0
 * The load that `fathom plan` sizes a fleet for: of a trace its busiest window, with what a steady
 * mix of the same moments is; or means that were given.
 */
#pragma once

#include "simulate/load/load_trace.h"
#include "simulate/report/spread.h"
#include "simulate/simulator/day_load.h"
#include "simulate/simulator/size_fleet.h"

#define PLAN_WINDOW_S                                                                              \
    300 /* measured of a trace; before it as long again, in which nothing counts */

struct plan_window {         /* of a trace */
    struct load_trace trace; /* its rows from the warm time's begin, times from there */
    double warm_s, measure_s;
};

/* Moves and changes the rows of `trace`. STATUS_INVALID: nothing came in it. */
enum status plan_load_window(struct load_trace *trace, struct plan_window *window_out,
                             struct error *error) MUST_USE;

struct plan_prompts { /* tokens of prompts: all, and the fewest that must be computed */
    struct time_spread lengths, computed;
};

/* The window's measured requests as a steady load, without requests that TTFT excludes. May
 * return STATUS_NO_MEMORY. */
enum status plan_load_moments(const struct plan_window *window, struct size_load *load_out,
                              struct plan_prompts *prompts_out, struct error *error) MUST_USE;

/* The prompts of a steady load. */
void plan_load_draw(const struct day_lengths *lengths, uint64_t seed,
                    struct plan_prompts *prompts_out);

/* "3s", "60ms", "0.5": seconds. False: it is none. */
bool plan_load_seconds(const char *text, double *seconds_out);
