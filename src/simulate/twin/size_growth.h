/* SPDX-License-Identifier: Apache-2.0
 * Which fleet is to be run next, and what a run says of others: the search behind `fathom plan`.
 *
 * Fleets are made of parts: a kind of unit that carries the load with others of its kind. TTFT is
 * the prefill part's, TPOT the decode part's, both the combined one's. So a run says of its parts how
 * many units are too few, or enough, in every fleet that has them. The fleet that would need the
 * fewest nodes is run next; where it misses, its part grows; where it holds with many more units than
 * are known to be too few, fewer are tried. The search is over when the fleet with the fewest nodes
 * has held: each other one is known, or bound by the step clock, to need more.
 */
#ifndef SIMULATE_TWIN_SIZE_GROWTH_H
#define SIMULATE_TWIN_SIZE_GROWTH_H

#include "simulate/twin/size_fleet.h"

#define SIZE_PARTS_MAX SIZE_FLEETS_MAX
#define SIZE_WHOLE_TOKENS 50e3 /* of answers a second: fleets for more are not run whole */

/* What a run is about: the fleet, or one role of a large one. */
enum size_focus { SIZE_WHOLE, SIZE_PROMPTS, SIZE_ANSWERS };

struct size_part {
    struct size_unit unit;
    uint32_t least;  /* fewer units do not hold */
    uint32_t enough; /* so many hold; 0: not known */
    uint32_t next;   /* to be run next; `enough` where nothing is left to try */
    uint32_t trials, misses;
    char why[SIZE_WHY_BYTES]; /* of the last miss */
    struct size_trial trial;  /* of `enough`, or the last one */
    bool lost;                /* more units do not help */
};

struct size_run {
    uint32_t index; /* of the fleet */
    enum size_focus focus;
    struct size_fleet fleet; /* with the units that it would have */
};

struct size_growth {
    const struct size_options *options;
    struct size_fleet *fleets; /* [count] */
    uint32_t count;
    struct size_part parts[SIZE_PARTS_MAX];
    uint32_t part_count;
    uint32_t parts_of[SIZE_FLEETS_MAX][2]; /* of each fleet's kinds */
};

/* `fleets` are size_fleet_rank's; they and the options live as long as the growth. */
void size_growth_open(const struct size_options *options, struct size_fleet *fleets, uint32_t count,
                      struct size_growth *growth_out);

/* Whether it is run whole. */
bool size_growth_whole(const struct size_load *load, const struct size_fleet *fleet);

/* False: the cheapest has held, or none is left that could. */
bool size_growth_next(const struct size_growth *growth, struct size_run *run_out);

/* Takes in what the twin said of a run that size_growth_next gave. */
void size_growth_take(struct size_growth *growth, const struct size_run *run,
                      const struct size_trial *trial);

/* Writes what is known into all fleets: verdicts, the nodes that each needs at least, why. */
void size_growth_close(struct size_growth *growth);

#endif
