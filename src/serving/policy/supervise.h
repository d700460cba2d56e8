/* SPDX-License-Identifier: Apache-2.0
 * What a supervisor of units decides: which rank is stuck, and when a unit that ended is started
 * again; and, of a supervisor and its agents, whether the other one is silent. Time comes as an
 * argument. A unit's whole life is serving/policy/supervise_unit.h.
 *
 * Stuck means: no sign of life for the timeout. A rank that computes gives signs by finishing tiles
 * of work, if it gets the time for it: on a machine that is busy with others nobody is blamed. One
 * that waits for others, or for something to do, gives signs by being run by the scheduler at all,
 * since it looks again and again. A rank that waits is therefore never blamed for one that
 * computes nothing; where all wait for one another and nothing moves between any two, not a part of
 * a message, nobody is, and the unit is stuck as a whole. A slow link moves something all the time.
 * A rank that comes back gives signs by being run, and by tiles of the weights that it packs. These may
 * take SUPERVISE_RETURN_PATIENCE times as long: between them it reads files and takes memory.
 */
#ifndef SERVING_POLICY_SUPERVISE_H
#define SERVING_POLICY_SUPERVISE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/pulse.h"

/* What is seen of a rank. */
struct supervise_signs {
    enum pulse_state state;
    uint64_t tiles;
    uint64_t moved; /* grows while anything goes between it and other ranks */
    uint32_t peer;  /* the rank that it waits for, and 1; 0: none, but maybe an order */
    uint64_t ran;   /* grows while the scheduler runs it; 0: not known, it is not judged by that */
    int64_t cpu_ns; /* time that it got so far; 0: not known, as much as passes */
    bool gone;      /* it has died, and the others go on: nothing is expected, unless */
    bool returns;   /* it was started again: it has to be run, and to finish tiles of its weights */
};

/* What is remembered of it; zeros at first. */
struct supervise_rank {
    uint64_t tiles, moved, ran;
    int64_t tiles_ns, ran_ns; /* when they last changed */
    int64_t tiles_cpu_ns;     /* time that it had got then */
    bool seen, gone;
};

struct supervise_watch {
    struct supervise_rank *ranks; /* [rank_count] */
    uint32_t rank_count;
    bool from_start;   /* `ran` does not stand still while a rank starts: it is judged by that */
    int64_t looked_ns; /* 0: never */
    int64_t moved_ns;  /* when any rank last finished a tile, moved anything, died or came back, or
                        * nothing was asked of them */
};

enum supervise_verdict {
    SUPERVISE_FINE,
    SUPERVISE_FROZEN,   /* the rank is not run at all: stopped, or deep in a system call */
    SUPERVISE_STUCK,    /* the rank computes and finishes nothing */
    SUPERVISE_DEADLOCK, /* all wait for one another */
    SUPERVISE_VERDICT_COUNT
};

struct supervise_finding {
    enum supervise_verdict verdict;
    uint32_t rank;     /* FROZEN, STUCK */
    int64_t silent_ns; /* since its last sign */
};

struct supervise_timeout {
    int64_t wall_ns; /* without a sign */
    int64_t cpu_ns;  /* that a rank which computes must have had of a CPU meanwhile */
};

#define SUPERVISE_RETURN_PATIENCE 12

/* `timeout_ns` of a rank with a CPU of its own, where ranks share CPUs. */
struct supervise_timeout supervise_timeout(int64_t timeout_ns, uint32_t ranks, uint32_t cpus);

/* Looks at all ranks: signs[rank_count]. Called a few times within the timeout; a caller that was
 * itself away for half of it blames nobody for that time. */
struct supervise_finding supervise_look(struct supervise_watch *watch,
                                        const struct supervise_signs *signs,
                                        struct supervise_timeout timeout, int64_t now_ns);

/* Of a deadlock: two hosts between which the network is cut, as they have ranks waiting for each
 * other's, or one waits for a rank that has nothing more to send; hosts[count] has each rank's. False:
 * there are none. */
bool supervise_find_cut(const struct supervise_signs *signs, const uint32_t *hosts, uint32_t count,
                        uint32_t cut_out[2]);

/* Of one unit; zeros at first. */
struct supervise_history {
    bool was_ever_ready;
    uint32_t quick_ends; /* in a row, each soon after its start */
};

struct supervise_end {
    bool was_ready; /* in this life */
    bool refused;   /* it ended by itself, and said why: a wrong option, a damaged checkpoint */
    bool host_lost; /* a host of it did not answer, which says nothing of the unit */
    int64_t lived_ns;
};

struct supervise_next {
    bool gives_up;
    int64_t wait_ns; /* before the next start */
};

/* Start again at once, then after ever longer waits while it ends soon. Give up when it refuses
 * before it was ever ready, or does not get ready five times in a row; one that has served waits
 * for a host that is away as long as it takes. */
struct supervise_next supervise_ended(struct supervise_history *history,
                                      const struct supervise_end *end);

/* An agent waits longer for its supervisor than that for the agent: so many times the timeout. */
#define SUPERVISE_PATIENCE 2

/* What one end of a connection remembers of the other. */
struct supervise_hearing {
    int64_t heard_ns;
    int64_t looked_ns; /* when supervise_silence was last called */
};

/* Called a few times within the timeout, 0 being none: how long nothing was heard, if that is longer;
 * else 0. Whoever was itself away for half of it blames nobody for that time. */
int64_t supervise_silence(struct supervise_hearing *hearing, int64_t timeout_ns, int64_t now_ns);

/* Between two signs of life, so that several come within the timeout; 0: there is none. */
int64_t supervise_interval_ns(int64_t timeout_ns);

#endif
