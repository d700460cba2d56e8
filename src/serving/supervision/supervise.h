/* SPDX-License-Identifier: Apache-2.0
 * Decisions of a supervisor of units: which rank is stuck, when a unit that ended is restarted,
 * and whether the peer of a connection between supervisor and agent is silent. Time is an
 * argument. serving/supervision/supervise_unit.h has the states of a unit.
 *
 * A rank is stuck if it shows no progress for the timeout. A computing rank shows progress by
 * finishing tiles of work, if it gets CPU time, so no rank is blamed on a busy machine. A rank
 * that waits for others, or for work, shows progress whenever the scheduler runs it, because it
 * polls. So a waiting rank is never blamed for one that computes nothing. If all wait for each
 * other and nothing moves between any two, not even a part of a message, no single rank is
 * blamed, and the unit is stuck as a whole. A slow link always moves something. A restarted rank
 * shows progress by being scheduled, and by tiles of the weights that it packs. These may take
 * SUPERVISE_RETURN_PATIENCE times as long, because it reads files and allocates memory in
 * between.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/heartbeat.h"

/* The observed signs of a rank. */
struct supervise_signs {
    enum heartbeat_state state;
    uint64_t tiles;
    uint64_t moved; /* grows while any data moves between it and other ranks */
    uint32_t peer;  /* 1 + the rank that it waits for; 0: none, or it waits for an order */
    uint64_t ran;   /* grows while the scheduler runs it; 0: unknown, not used */
    int64_t cpu_ns; /* CPU time so far; 0: unknown, counts as running all the time */
    /* it has died and the others continue: no signs are expected, unless `returns` is set */
    bool gone;
    bool returns; /* it was restarted: it must be scheduled, and finish tiles of its weights */
};

/* The stored state of a rank; zeros at first. */
struct supervise_rank {
    uint64_t tiles, moved, ran;
    int64_t tiles_ns, ran_ns; /* time of their last change */
    int64_t tiles_cpu_ns;     /* its CPU time at tiles_ns */
    bool seen, gone;
};

struct supervise_watch {
    struct supervise_rank *ranks; /* [rank_count] */
    uint32_t rank_count;
    bool from_start;   /* `ran` grows even while a rank starts, so it is checked from the start */
    int64_t looked_ns; /* time of the last check; 0: never */
    /* time at which a rank last finished a tile, moved data, died, returned, or had nothing to
     * do */
    int64_t moved_ns;
};

enum supervise_verdict {
    SUPERVISE_FINE,
    SUPERVISE_FROZEN,   /* the rank is not scheduled: stopped, or blocked in a system call */
    SUPERVISE_STUCK,    /* the rank computes but finishes nothing */
    SUPERVISE_DEADLOCK, /* all ranks wait for each other */
    SUPERVISE_VERDICT_COUNT
};

struct supervise_finding {
    enum supervise_verdict verdict;
    uint32_t rank;     /* FROZEN, STUCK */
    int64_t silent_ns; /* time since its last sign */
};

struct supervise_timeout {
    int64_t wall_ns; /* time without a sign */
    int64_t cpu_ns;  /* CPU time that a computing rank must have had in that time */
};

#define SUPERVISE_RETURN_PATIENCE 12

/* The timeout for ranks that may share CPUs. `timeout_ns` is that of a rank with a CPU of its
 * own. */
struct supervise_timeout supervise_timeout(int64_t timeout_ns, uint32_t ranks, uint32_t cpus);

/* Checks all ranks: signs[rank_count]. Called a few times within the timeout. A caller that was
 * itself suspended for half of it blames no rank for that time. */
struct supervise_finding supervise_look(struct supervise_watch *watch,
                                        const struct supervise_signs *signs,
                                        struct supervise_timeout timeout, int64_t now_ns);

/* For a deadlock: finds two hosts with a broken network between them. Their ranks wait for each
 * other's ranks, or one waits for a rank that has nothing more to send. hosts[count] has the host
 * of each rank. Returns false if there are none. */
bool supervise_find_cut(const struct supervise_signs *signs, const uint32_t *hosts, uint32_t count,
                        uint32_t cut_out[2]);

/* The restarts of one unit; zeroed at the start. */
struct supervise_history {
    bool was_ever_ready;
    uint32_t quick_ends; /* consecutive ends soon after the start */
};

struct supervise_end {
    bool was_ready; /* in this run */
    bool refused;   /* it exited and gave the reason: a wrong option, a damaged checkpoint */
    bool host_lost; /* one of its hosts did not respond; the unit is not at fault */
    int64_t ran_ns;
};

struct supervise_next {
    bool gives_up;
    int64_t wait_ns; /* before the next start */
};

/* Restarts at once, then after increasing delays while the unit ends soon. Gives up if it refuses
 * before it was ever ready, or does not become ready five times in a row. A unit that has served
 * waits for a missing host without limit. */
struct supervise_next supervise_ended(struct supervise_history *history,
                                      const struct supervise_end *end);

/* Intervals of the looks of supervisors and agents: while ranks run, and while some start. */
#define SUPERVISE_TICK_NS ((int64_t)100000000)
#define SUPERVISE_TICK_START_NS ((int64_t)20000000)

/* An agent waits this many times the timeout for its supervisor, longer than the supervisor
 * does. */
#define SUPERVISE_PATIENCE 2

/* The last receipt at one end of a connection. */
struct supervise_hearing {
    int64_t received_ns;
    int64_t looked_ns; /* time of the last call of supervise_silence */
};

/* Returns how long nothing was received, if that exceeds the timeout; else 0. Called a few times
 * within the timeout; a timeout of 0 means none. If the caller itself was suspended for half of the
 * timeout, that time is ignored. */
int64_t supervise_silence(struct supervise_hearing *hearing, int64_t timeout_ns, int64_t now_ns);

/* The interval between heartbeats, so that several are sent within the timeout; 0: none. */
int64_t supervise_interval_ns(int64_t timeout_ns);
