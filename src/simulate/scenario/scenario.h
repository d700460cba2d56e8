/* SPDX-License-Identifier: Apache-2.0
 * A scenario: a fleet, its hardware and model, a load, prices, and a duration. It is read from a
 * tree in which names are resolved (scenario_edit.h). Missing keys have the defaults of the
 * product. Opening its load makes a source of requests. The program reads the file of a trace,
 * because pure modules read no files.
 */
#pragma once

#include "simulate/hardware/hardware_file.h"
#include "simulate/load/load_mix.h"
#include "simulate/load/load_replay.h"
#include "simulate/scenario/prices.h"
#include "simulate/scenario/scenario_day.h"
#include "simulate/simulator/fault_costs.h"

/* A day is run in windows, each with its own load (simulate/simulator/day.h), so it has no
 * source. */
enum scenario_load_kind { SCENARIO_LOAD_MIX, SCENARIO_LOAD_TRACE, SCENARIO_LOAD_DAY };

struct scenario_load {
    enum scenario_load_kind kind;
    struct load_mix_options mix;
    struct mix_moments asked;    /* moments that the shape was solved for; zeros: the shape was
                                  * given directly */
    char trace[TREE_TEXT_BYTES]; /* its name or file */
    double length_scale;
    struct load_replay_options replay; /* without the trace */
    struct day_options day;
};

struct scenario {
    char name[TREE_TEXT_BYTES];
    struct simulator_options options; /* without a source until the load is opened */
    struct hardware hardware[SIMULATOR_KINDS_MAX + 1]; /* of the fleet, then of kinds of units */
    struct model_figures model;
    struct scenario_load load;
    struct prices prices;
    struct fault_limits limits; /* limits for requests, if the cost of faults is reported */
    double start_hour;          /* of the day, UTC, at the start of the measured time */
    const struct tree *tree;    /* the tree that it was read from */
};

/* Reads a scenario. Everything is stored in `arena` and in *scenario_out, which has pointers into
 * itself and must not move. `file` names the tree in messages. STATUS_INVALID names the key and the
 * cure. */
enum status scenario_read(struct arena *arena, const struct tree *tree, const char *file,
                          struct scenario *scenario_out, struct error *error) MUST_USE;

/* Arena bytes for scenario_open_load. `trace` was read by the program for load.trace, or is
 * NULL. */
size_t scenario_load_bytes(const struct scenario *scenario, const struct load_trace *trace);

/* Makes the source in the scenario's options. A day has none. */
enum status scenario_open_load(struct arena *arena, struct scenario *scenario,
                               const struct load_trace *trace, struct error *error) MUST_USE;
