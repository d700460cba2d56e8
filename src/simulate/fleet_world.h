/* SPDX-License-Identifier: Apache-2.0
 * A fleet in virtual time: the real gateway and real units of several ranks, an engine of numbers
 * (simulate/fleet_engine), clients who know what they must be told (simulate/fleet_clients), and a
 * network that delays, cuts and loses. Until the healing, units die at any moment and come back as
 * others, freeze, lose their connection without dying, fail steps and are drained; a rank of a unit
 * dies in the middle of a step, and the others go on without it; clients leave at any moment. After
 * it everything must come to rest.
 *
 * What must hold, whatever the seed: every client is answered once and whole, by the tokens of an
 * undisturbed run, or is told why not; all tables and pages are free or cached at the end; and the
 * end comes. The same seed gives the same life.
 */
#ifndef SIMULATE_FLEET_WORLD_H
#define SIMULATE_FLEET_WORLD_H

#include "base/arena.h"

struct fleet_world_options {
    uint64_t seed;
    bool faults;
};

enum fleet_refusal {
    FLEET_QUEUE_FULL,
    FLEET_NO_MEMORY,
    FLEET_NO_UNIT,
    FLEET_FAILED,
    FLEET_REFUSALS
};

struct fleet_world_report {
    char breach[256];                             /* empty: all that must hold did */
    uint32_t asked, answered, refused, cut, left; /* clients; cut: some tokens, and a reason */
    uint32_t refused_by[FLEET_REFUSALS];
    uint32_t deaths, freezes, cuts, failed_steps, drains, rank_deaths;
    bool scarce;                    /* the gateway could not keep every answer's tokens */
    uint64_t losses, resumed;       /* by the gateway's account */
    uint64_t preempted, recomputed; /* tokens; by the units' that were there at the end */
    uint64_t digest;                /* of all that the gateway said */
    int64_t rest_ns;                /* when nothing was left to do */
};

/* Arena bytes that suffice for fleet_world_run. */
size_t fleet_world_bytes(void);

/* Lives one life in `arena`, which it clears first. */
void fleet_world_run(const struct fleet_world_options *options, struct arena *arena,
                     struct fleet_world_report *report_out);

#endif
