/* SPDX-License-Identifier: Apache-2.0
 * The search of `fathom plan`: chooses the next fleet to run, and derives from a run the bounds for
 * other fleets.
 *
 * Fleets consist of parts. A part is a kind of unit that serves the load with others of its kind.
 * TTFT depends on the prefill part, TPOT on the decode part, both on a combined part. A run
 * therefore shows for each of its parts how many units are too few, or enough, in every fleet that
 * has the part. The search always runs the fleet that would need the fewest nodes. If it misses,
 * the part that missed grows. If it holds with many more units than are known to be too few, fewer
 * are tried. The search ends when the fleet with the fewest nodes has held. Each other one is then
 * known, or bound by the step clock, to need more.
 */
#pragma once

#include "simulate/simulator/size_fleet.h"

#define SIZE_PARTS_MAX SIZE_FLEETS_MAX
#define SIZE_WHOLE_TOKENS 50e3 /* answers' tokens per second; larger fleets are not run whole */

/* The subject of a run: the fleet, or one role of a large fleet. */
enum size_focus { SIZE_WHOLE, SIZE_PROMPTS, SIZE_ANSWERS };

struct size_part {
    struct size_unit unit;
    uint32_t least;  /* fewer units miss the limits */
    uint32_t enough; /* this number meets the limits; 0: unknown */
    uint32_t next;   /* the next number to run; `enough` if nothing is left to try */
    uint32_t trials, misses;
    char why[SIZE_WHY_BYTES]; /* reason of the last miss */
    struct size_trial trial;  /* of `enough` units, or the last one */
    bool lost;                /* more units do not help */
};

struct size_run {
    uint32_t index; /* of the fleet */
    enum size_focus focus;
    struct size_fleet fleet; /* with the numbers of units to run */
};

struct size_growth {
    const struct size_options *options;
    struct size_fleet *fleets; /* [count] */
    uint32_t count;
    struct size_part parts[SIZE_PARTS_MAX];
    uint32_t part_count;
    uint32_t parts_of[SIZE_FLEETS_MAX][2]; /* of each fleet's kinds */
};

/* `fleets` are those of size_fleet_rank. They and the options must live as long as the growth. */
void size_growth_open(const struct size_options *options, struct size_fleet *fleets, uint32_t count,
                      struct size_growth *growth_out);

/* True if the fleet is run whole. */
bool size_growth_whole(const struct size_load *load, const struct size_fleet *fleet);

/* Chooses the next run. Returns false if the cheapest fleet has met the limits, or no other fleet
 * can. */
bool size_growth_next(const struct size_growth *growth, struct size_run *run_out);

/* Records the result of a run that size_growth_next chose. */
void size_growth_take(struct size_growth *growth, const struct size_run *run,
                      const struct size_trial *trial);

/* Writes the results into all fleets: verdicts, the fewest nodes that each needs, and why. */
void size_growth_close(struct size_growth *growth);
