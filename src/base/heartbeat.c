/* SPDX-License-Identifier: Apache-2.0 */
#include "base/heartbeat.h"

#include <sched.h>
#include <unistd.h>

static struct heartbeat unwatched;
struct heartbeat *heartbeat_memory = &unwatched;

static struct heartbeat_thread unshared;
struct heartbeat_thread *heartbeat_thread = &unshared;

void heartbeat_thread_reset(void) {
    heartbeat_thread = &unshared;
}

void heartbeat_sign(void) {
    static _Thread_local int32_t id;
    if (!id) id = gettid();
    atomic_store_explicit(&heartbeat_thread->id, id, memory_order_relaxed);
    atomic_store_explicit(&heartbeat_thread->cpu, sched_getcpu(), memory_order_relaxed);
    uint64_t signs = atomic_load_explicit(&heartbeat_thread->signs, memory_order_relaxed);
    atomic_store_explicit(&heartbeat_thread->signs, signs + 1, memory_order_relaxed);
}
