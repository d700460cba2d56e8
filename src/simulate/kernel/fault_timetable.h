/* SPDX-License-Identifier: Apache-2.0
 * Random times for faults of several kinds. Each kind has its own random stream and its own times.
 * If a kind is added or made more frequent, the draws of the other kinds in a run stay the same.
 */
#pragma once

#include "simulate/kernel/fleet_dice.h"

struct world;

struct fault_kind {
    int64_t after_ms_max; /* the longest time between two faults; the mean is a third of it */
    void (*strike)(struct world *world, struct fleet_dice *dice);
};

enum { FAULT_KINDS_MAX = 24 };

struct fault_timetable {
    const struct fault_kind *kinds; /* [count] */
    uint32_t count;
    struct fleet_dice dice[FAULT_KINDS_MAX];
    int64_t due_ns[FAULT_KINDS_MAX]; /* of the next fault, or MACHINE_NEVER */
};

/* Begins at time 0 of a run. Kind i draws from the random stream `stream` + i. */
void fault_timetable_open(struct fault_timetable *table, const struct fault_kind *kinds,
                          uint32_t count, uint64_t seed, uint32_t stream);

/* Ends the faults of all kinds. */
void fault_timetable_end(struct fault_timetable *table);

int64_t fault_timetable_next_ns(const struct fault_timetable *table);

/* Runs all faults that are due. Returns their number. */
uint32_t fault_timetable_strike(struct fault_timetable *table, struct world *world, int64_t now_ns);
