/* SPDX-License-Identifier: Apache-2.0
 * This process's heartbeat, for a supervisor: its state, its position in the model, the number of
 * tiles of work that it has finished, and its messages with other processes. It is written to plain
 * memory that a supervisor may map (host/process/rank_board.h), without locks and at no measurable
 * cost. Nothing in this process may depend on it.
 */
#ifndef BASE_PULSE_H
#define BASE_PULSE_H

#include <stdatomic.h>
#include <stdint.h>

enum pulse_state {
    PULSE_STARTS,   /* not ready yet; nothing is expected */
    PULSE_IDLE,     /* nothing to do */
    PULSE_COMPUTES, /* tiles get finished */
    PULSE_WAITS,    /* for other ranks */
    PULSE_STATE_COUNT
};

struct pulse {
    _Atomic uint64_t tiles;
    _Atomic uint32_t state; /* enum pulse_state */
    _Atomic uint32_t place; /* layer << 8 | enum stage */
    _Atomic uint64_t moved; /* times that anything went to other ranks or came from them */
    _Atomic uint32_t peer;  /* the rank that it has waited for the longest, and 1; 0: none, or rank
                             * 0's next order */
};

/* Where the signs go; memory of this process's own at first. */
extern struct pulse *pulse_memory;

static inline void pulse_tile(void) {
    uint64_t tiles = atomic_load_explicit(&pulse_memory->tiles, memory_order_relaxed);
    atomic_store_explicit(&pulse_memory->tiles, tiles + 1, memory_order_relaxed);
}

static inline void pulse_set(enum pulse_state state) {
    atomic_store_explicit(&pulse_memory->state, (uint32_t)state, memory_order_relaxed);
}

static inline void pulse_place(uint32_t layer, uint32_t stage) {
    atomic_store_explicit(&pulse_memory->place, layer << 8 | stage, memory_order_relaxed);
}

static inline void pulse_moved(void) {
    uint64_t moved = atomic_load_explicit(&pulse_memory->moved, memory_order_relaxed);
    atomic_store_explicit(&pulse_memory->moved, moved + 1, memory_order_relaxed);
}

static inline void pulse_await(uint32_t peer) {
    atomic_store_explicit(&pulse_memory->peer, peer, memory_order_relaxed);
}

#endif
