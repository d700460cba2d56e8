/* SPDX-License-Identifier: Apache-2.0
 * The heartbeat of this process for a supervisor: its state, its position in the model, and counts
 * of finished tiles and of messages. It is written without locks, at no measurable cost, to memory
 * that a supervisor may map (host/process/ranks/rank_health.h). Nothing in this process may depend
 * on it.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

enum heartbeat_state {
    HEARTBEAT_STARTS,   /* not ready; no progress is expected */
    HEARTBEAT_IDLE,     /* nothing to do */
    HEARTBEAT_COMPUTES, /* computing: tiles must finish */
    HEARTBEAT_WAITS,    /* waiting for other ranks */
    HEARTBEAT_STATE_COUNT
};

struct heartbeat {
    _Atomic uint64_t tiles;
    _Atomic uint32_t state; /* enum heartbeat_state */
    _Atomic uint32_t place; /* layer << 8 | enum stage */
    _Atomic uint64_t moved; /* messages sent to or received from other ranks */
    /* 1 + the rank that this one has waited for the longest; 0: none, or it waits for the next
     * command from rank 0 */
    _Atomic uint32_t peer;
};

/* Memory of the heartbeat. It is private to this process until a supervisor's memory replaces
 * it. */
extern struct heartbeat *heartbeat_memory;

/* Signs of life of the thread that computes, for other ranks of the host: finished tiles, and polls
 * while it waits. */
struct heartbeat_thread {
    _Alignas(64) _Atomic uint64_t signs;
    _Atomic int32_t id;       /* of the thread that gave the last sign; 0: none */
    _Atomic int32_t cpu;      /* where it ran */
    _Atomic uint64_t allowed; /* the hash of the CPUs that it may use (base/cpus.h) */
};

/* Private to this process until memory that other ranks map replaces it. */
extern struct heartbeat_thread *heartbeat_thread;
void heartbeat_thread_reset(void);
void heartbeat_sign(void);

static inline void heartbeat_tile(void) {
    uint64_t tiles = atomic_load_explicit(&heartbeat_memory->tiles, memory_order_relaxed);
    atomic_store_explicit(&heartbeat_memory->tiles, tiles + 1, memory_order_relaxed);
    heartbeat_sign();
}

static inline void heartbeat_set(enum heartbeat_state state) {
    atomic_store_explicit(&heartbeat_memory->state, (uint32_t)state, memory_order_relaxed);
}

static inline void heartbeat_place(uint32_t layer, uint32_t stage) {
    atomic_store_explicit(&heartbeat_memory->place, layer << 8 | stage, memory_order_relaxed);
}

static inline void heartbeat_moved(void) {
    uint64_t moved = atomic_load_explicit(&heartbeat_memory->moved, memory_order_relaxed);
    atomic_store_explicit(&heartbeat_memory->moved, moved + 1, memory_order_relaxed);
}

static inline void heartbeat_await(uint32_t peer) {
    atomic_store_explicit(&heartbeat_memory->peer, peer, memory_order_relaxed);
}
