/* SPDX-License-Identifier: Apache-2.0
 * The load for which `fathom plan` sizes a fleet. It is either the busiest window of a trace,
 * together with a steady load of the same moments, or a load with given means.
 */
#pragma once

#include "simulate/load/load_trace.h"
#include "simulate/report/spread.h"
#include "simulate/simulator/day_load.h"
#include "simulate/simulator/size_fleet.h"

#define PLAN_WINDOW_S 300 /* measured part of a trace; an equally long warm-up precedes it */

struct plan_window {         /* a part of a trace */
    struct load_trace trace; /* rows from the warm-up's start; times count from there */
    double warm_s, measure_s;
};

/* Moves and changes the rows of `trace`. STATUS_INVALID: the trace has no requests. */
enum status plan_load_window(struct load_trace *trace, struct plan_window *window_out,
                             struct error *error) MUST_USE;

struct plan_prompts { /* prompt tokens: all, and the fewest that must be computed */
    struct time_spread lengths, computed;
};

/* The window's measured requests as a steady load, without requests that TTFT excludes. May
 * return STATUS_NO_MEMORY. */
enum status plan_load_moments(const struct plan_window *window, struct size_load *load_out,
                              struct plan_prompts *prompts_out, struct error *error) MUST_USE;

/* Draws the prompts of a steady load. */
void plan_load_draw(const struct day_lengths *lengths, uint64_t seed,
                    struct plan_prompts *prompts_out);

/* Parses a duration in seconds: "3s", "60ms" or "0.5". Returns false if it is not one. */
bool plan_load_seconds(const char *text, double *seconds_out);
