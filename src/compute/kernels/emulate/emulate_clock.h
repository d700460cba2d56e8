/* SPDX-License-Identifier: Apache-2.0
 * Vector clocks: what a thread knows of the others. An epoch is an entry's index with a time.
 * Entries are a block's threads, then its warpgroups' products in flight, then its barriers'
 * copies, each of which is an actor of its own. Clocks are values: never changed once two hold
 * them, so that all threads behind a barrier share one.
 */
#pragma once

#include "compute/kernels/emulate/emulate.h"

#define CLOCK_WARPGROUPS EMULATE_THREADS_MAX
#define CLOCK_BARRIERS (CLOCK_WARPGROUPS + EMULATE_THREADS_MAX / 128)
#define CLOCK_BARRIERS_MAX 64
#define CLOCK_ENTRIES (CLOCK_BARRIERS + CLOCK_BARRIERS_MAX)
#define CLOCK_INDEX_BITS 11
#define CLOCK_TIME_MAX (1u << (32 - CLOCK_INDEX_BITS))

struct emulate_clock {
    uint32_t holders;
    uint32_t count; /* entries beyond are 0 */
    uint32_t at[CLOCK_ENTRIES];
};

static inline uint32_t clock_epoch(uint32_t index, uint32_t time) {
    return time << CLOCK_INDEX_BITS | index;
}
static inline uint32_t clock_index(uint32_t epoch) {
    return epoch & ((1u << CLOCK_INDEX_BITS) - 1);
}
static inline uint32_t clock_time(uint32_t epoch) {
    return epoch >> CLOCK_INDEX_BITS;
}

/* Knows nothing. Each of these gives a clock with a holder more: the caller. */
struct emulate_clock *emulate_clock_new(void);
struct emulate_clock *emulate_clock_hold(struct emulate_clock *clock);
void emulate_clock_drop(struct emulate_clock *clock);

/* *clock becomes what both know. */
void emulate_clock_learn(struct emulate_clock **clock, struct emulate_clock *other);
/* *clock is the caller's alone, with so many entries at least: it may change them. */
void emulate_clock_own(struct emulate_clock **clock, uint32_t count);
/* *clock's entry becomes at least `time`. */
void emulate_clock_note(struct emulate_clock **clock, uint32_t index, uint32_t time);
