/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/exchange/peer_watch.h"

#include "base/clock.h"
#include "base/cpus.h"
#include "base/heartbeat.h"
#include "compute/exchange/shared_window.h"

#include <sched.h>

#define PATIENCE_NS 20000
#define TRADE_NS 200000 /* between two trades in one wait */

static struct shared_window signs;
static struct peer_wait current;

bool peer_watch_is_due(struct peer_wait *wait, uint32_t peer, uint64_t count, int64_t now_ns) {
    if (wait->peer != peer || wait->signs != count) {
        *wait = (struct peer_wait){peer, count, now_ns + PATIENCE_NS, PATIENCE_NS};
        return false;
    }
    if (now_ns < wait->look_ns) return false;
    wait->step_ns *= 2;
    wait->look_ns = now_ns + wait->step_ns;
    return true;
}

enum status peer_watch_open(uint32_t rank_count, struct error *error) {
    enum status status =
        shared_window_open(&signs, sizeof(struct heartbeat_thread), rank_count, error);
    if (status) return status;
    heartbeat_thread = (struct heartbeat_thread *)(void *)signs.own;
    atomic_store(&heartbeat_thread->allowed, cpus_allowed_hash());
    return STATUS_OK;
}

void peer_watch_close(void) {
    if (!signs.own) return;
    heartbeat_thread_reset();
    shared_window_close(&signs);
    current = (struct peer_wait){.peer = 0};
}

struct shared_file peer_watch_address(void) {
    return signs.address;
}

void peer_watch_map(uint32_t rank, const struct shared_file *address, uint32_t epoch) {
    shared_window_map(&signs, rank, address, epoch);
}

void peer_watch_look(uint32_t peer, uint32_t epoch) {
    heartbeat_sign();
    struct heartbeat_thread *other =
        (struct heartbeat_thread *)(void *)shared_window_of(&signs, peer, epoch);
    int32_t thread = other ? atomic_load(&other->id) : 0;
    if (!thread || atomic_load(&other->allowed) != cpus_allowed_hash()) return;
    if (!peer_watch_is_due(&current, peer, atomic_load(&other->signs), clock_now_ns()) ||
        cpus_is_running(thread))
        return;
    int here = sched_getcpu(), there = atomic_load(&other->cpu);
    if (cpus_trade(thread, there)) {
        atomic_store(&other->cpu, here); /* before its next sign, if it looks at this rank */
        atomic_store(&heartbeat_thread->cpu, there);
    }
    current.step_ns = TRADE_NS;
    current.look_ns = clock_now_ns() + TRADE_NS;
}
