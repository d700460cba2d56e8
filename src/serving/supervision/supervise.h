/* SPDX-License-Identifier: Apache-2.0
 * Decisions of a unit supervisor: which rank is stuck, when a unit that ended is restarted, and
 * whether the peer of a connection between supervisor and agent is silent. Time is an argument.
 * serving/supervision/supervise_unit.h has the states of a unit.
 *
 * A rank is stuck if it shows no progress for the timeout. A computing rank shows progress by
 * finishing tiles of work. It must have had CPU time for that, so no rank is blamed on a busy
 * machine. A rank that waits, for other ranks or for work, shows progress whenever the scheduler
 * runs it, because it polls. A waiting rank is therefore never blamed for another rank that hangs.
 * If all ranks wait for each other, and no data moves between any two (not even a part of a
 * message), no single rank is blamed, and the unit as a whole is stuck. A slow link always moves
 * some data. A restarted rank shows progress by being scheduled, and by finishing tiles of the
 * weights that it packs. A tile may then take SUPERVISE_RETURN_PATIENCE times as long, because the
 * rank also reads files and allocates memory.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/heartbeat.h"

/* The observed signs of progress of a rank. */
struct supervise_signs {
    enum heartbeat_state state;
    uint64_t tiles;
    uint64_t moved; /* grows while any data moves between it and other ranks */
    uint32_t peer;  /* 1 + the rank for which it waits; 0: none, or it waits for an order */
    uint64_t ran;   /* grows while the scheduler runs it; 0: unknown, not used */
    int64_t cpu_ns; /* CPU time so far; 0: unknown, counts as running all the time */
    /* it has died and the others continue; no signs are expected unless `returns` is set */
    bool gone;
    bool returns; /* it was restarted; it must be scheduled, and finish tiles of its weights */
};

/* The stored state of a rank; zeroed at the start. */
struct supervise_rank {
    uint64_t tiles, moved, ran;
    int64_t tiles_ns, ran_ns; /* time of their last change */
    int64_t tiles_cpu_ns;     /* its CPU time at tiles_ns */
    bool seen, gone;
};

struct supervise_watch {
    struct supervise_rank *ranks; /* [rank_count] */
    uint32_t rank_count;
    /* `ran` grows even while a rank starts, so it is checked from the start on */
    bool from_start;
    int64_t looked_ns; /* time of the last check; 0: never */
    /* last time at which any rank finished a tile, moved data, died, returned, or had nothing to
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
    int64_t cpu_ns;  /* CPU time that a computing rank must have had meanwhile */
};

#define SUPERVISE_RETURN_PATIENCE 12

/* The timeout for ranks that may share CPUs. `timeout_ns` applies to a rank with a CPU of its
 * own. */
struct supervise_timeout supervise_timeout(int64_t timeout_ns, uint32_t ranks, uint32_t cpus);

/* Checks all ranks, signs[rank_count]. Must be called a few times within the timeout. If the caller
 * itself was suspended for half of the timeout, no rank is blamed for that time. */
struct supervise_finding supervise_look(struct supervise_watch *watch,
                                        const struct supervise_signs *signs,
                                        struct supervise_timeout timeout, int64_t now_ns);

/* Called after a deadlock. Finds two hosts with a broken network between them: their ranks wait for
 * each other's ranks, or one waits for a rank that has nothing more to send. hosts[count] has the
 * host of each rank. Returns false if there are no such hosts. */
bool supervise_find_cut(const struct supervise_signs *signs, const uint32_t *hosts, uint32_t count,
                        uint32_t cut_out[2]);

/* The history of a unit's restarts; zeroed at the start. */
struct supervise_history {
    bool was_ever_ready;
    uint32_t quick_ends; /* consecutive ends soon after a start */
};

struct supervise_end {
    bool was_ready; /* in this run */
    /* it exited and gave a reason, such as a wrong option or a damaged checkpoint */
    bool refused;
    bool host_lost; /* one of its hosts did not respond, so the unit is not at fault */
    int64_t ran_ns;
};

struct supervise_next {
    bool gives_up;
    int64_t wait_ns; /* before the next start */
};

/* Decides about the next restart: at once, then after increasing delays while the unit ends soon
 * after each start. Gives up if the unit refuses before it was ever ready, or does not become ready
 * five times in a row. A unit that has served waits for a missing host without limit. */
struct supervise_next supervise_ended(struct supervise_history *history,
                                      const struct supervise_end *end);

/* Intervals at which supervisors and agents check ranks: while all run, and while some start. */
#define SUPERVISE_TICK_NS ((int64_t)100000000)
#define SUPERVISE_TICK_START_NS ((int64_t)20000000)

/* An agent waits for its supervisor for this many timeouts, which is longer than the supervisor
 * waits for the agent. */
#define SUPERVISE_PATIENCE 2

/* Time for an agent to connect and to report what its host has. */
#define SUPERVISE_CONNECT_NS_MAX ((int64_t)30000000000)

/* The state of silence detection at one end of a connection. */
struct supervise_hearing {
    int64_t received_ns;
    int64_t looked_ns; /* time of the last call of supervise_silence */
};

/* Returns how long nothing was received if that exceeds the timeout, else 0. A timeout of 0 means
 * none. Must be called a few times within the timeout. If the caller itself was suspended for half
 * of the timeout, that time is ignored. */
int64_t supervise_silence(struct supervise_hearing *hearing, int64_t timeout_ns, int64_t now_ns);

/* The interval between heartbeats, such that several are sent within the timeout; 0: none. */
int64_t supervise_interval_ns(int64_t timeout_ns);
