/* SPDX-License-Identifier: Apache-2.0
 * Faults of several kinds at random times. Each kind has a random stream and times of its own. A
 * kind that is added, or is made more frequent, therefore changes a seed's run only by its effects,
 * not by its draws.
 */
#pragma once

#include "simulate/kernel/fleet_dice.h"

struct world;

struct fault_kind {
    int64_t after_ms_max; /* the longest time between two; on average it is a third of that */
    void (*strike)(struct world *world, struct fleet_dice *dice);
};

enum { FAULT_KINDS_MAX = 24 };

struct fault_timetable {
    const struct fault_kind *kinds; /* [count] */
    uint32_t count;
    struct fleet_dice dice[FAULT_KINDS_MAX];
    int64_t due_ns[FAULT_KINDS_MAX]; /* of the next one; MACHINE_NEVER: none */
};

/* Begins at time 0 of a run. The kinds draw from `stream` and those that follow it. */
void fault_timetable_open(struct fault_timetable *table, const struct fault_kind *kinds,
                          uint32_t count, uint64_t seed, uint32_t stream);

/* Ends all faults: none is due any more. */
void fault_timetable_end(struct fault_timetable *table);

int64_t fault_timetable_next_ns(const struct fault_timetable *table);

/* Lets all faults strike that are due. Returns how many. */
uint32_t fault_timetable_strike(struct fault_timetable *table, struct world *world, int64_t now_ns);
