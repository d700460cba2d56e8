/* SPDX-License-Identifier: Apache-2.0
 * A scenario: a fleet, its hardware and model, a load, prices, and a duration, read from a tree
 * with resolved names (scenario_edit.h). Keys that it lacks have the product's defaults. Its load
 * becomes a source of requests when it is opened. The program reads a trace's file, since pure
 * modules do not read files.
 */
#pragma once

#include "simulate/hardware/hardware_file.h"
#include "simulate/load/load_mix.h"
#include "simulate/load/load_replay.h"
#include "simulate/scenario/prices.h"
#include "simulate/scenario/scenario_day.h"
#include "simulate/simulator/fault_costs.h"

/* A day is run in windows, each with a load of its own (simulate/simulator/day.h), so it has no
 * source. */
enum scenario_load_kind { SCENARIO_LOAD_MIX, SCENARIO_LOAD_TRACE, SCENARIO_LOAD_DAY };

struct scenario_load {
    enum scenario_load_kind kind;
    struct load_mix_options mix;
    struct mix_moments asked;    /* moments that the shape was solved for; zeros: the shape was
                               * given */
    char trace[TREE_TEXT_BYTES]; /* a name or a file */
    double length_scale;
    struct load_replay_options replay; /* without its trace */
    struct day_options day;
};

struct scenario {
    char name[TREE_TEXT_BYTES];
    struct simulator_options options; /* without its source, until the load is opened */
    struct hardware
        hardware[SIMULATOR_KINDS_MAX + 1]; /* the fleet's, then those of kinds of units */
    struct model_figures model;
    struct scenario_load load;
    struct prices prices;
    struct fault_limits limits; /* for requests, if the cost of faults is reported */
    double start_hour;          /* of the day, UTC, at the start of the measured time */
    const struct tree *tree;    /* the tree that it was read from */
};

/* Reads a scenario. Everything is stored in `arena` and in *scenario_out, which contains pointers
 * to itself. `file` names the tree in messages. STATUS_INVALID names the key and the cure. */
enum status scenario_read(struct arena *arena, const struct tree *tree, const char *file,
                          struct scenario *scenario_out, struct error *error) MUST_USE;

/* Arena bytes for scenario_open_load. `trace`: the trace that the program read for load.trace, or
 * NULL. */
size_t scenario_load_bytes(const struct scenario *scenario, const struct load_trace *trace);

/* Makes the source of the options. A day has none. */
enum status scenario_open_load(struct arena *arena, struct scenario *scenario,
                               const struct load_trace *trace, struct error *error) MUST_USE;
