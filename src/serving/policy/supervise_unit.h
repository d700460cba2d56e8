/* SPDX-License-Identifier: Apache-2.0
 * A unit's life as its supervisor decides it: its hosts are checked, all ranks are launched, watched,
 * and killed when rank 0 dies or stands still or a host is lost; then the unit starts again, at once or
 * after a while, or is given up. Another rank that stands still is killed alone. When one dies, rank 0
 * says that the others go on, or the unit ends. Then the rank is started again in the same way, until
 * it is given up, and all go on with it. One that hangs on its way back is killed, too.
 *
 * A machine without records: what happens and the time come as arguments, and orders come out, to be
 * carried out one after another. Each start has a number, and what is told of another start is
 * nothing. Carrying out is the business of host/process/supervisor.h, and of the simulation.
 *
 * A job that fails is killed rather than asked. It gets a moment first: before it is ready, it says
 * why and with which status it ends; later, ranks that end may have lost another one, which then is
 * told of.
 */
#ifndef SERVING_POLICY_SUPERVISE_UNIT_H
#define SERVING_POLICY_SUPERVISE_UNIT_H

#include "serving/policy/supervise.h"

enum supervise_state {
    SUPERVISE_GIVEN_UP, /* or not started yet */
    SUPERVISE_CHECKS,   /* its hosts are looked at */
    SUPERVISE_RUNS,
    SUPERVISE_FAILS, /* a rank ended by itself: the others are given a moment */
    SUPERVISE_ENDS,  /* it was killed */
    SUPERVISE_PAUSES,
    SUPERVISE_STATE_COUNT
};

enum supervise_member_state {
    SUPERVISE_MEMBER_ENDED, /* with its unit */
    SUPERVISE_MEMBER_LIVES,
    SUPERVISE_MEMBER_PAUSES,
    SUPERVISE_MEMBER_RETURNS, /* it was started again, and the others do not go on with it yet */
    SUPERVISE_MEMBER_GIVEN_UP
};

struct supervise_member { /* a rank in its unit's life */
    enum supervise_member_state state;
    bool is_there;              /* RETURNS: the others have been told of it */
    int64_t began_ns, state_ns; /* when this life, and this state, began; 0: with the unit */
    int64_t died_ns;            /* for the first time since it last lived */
    int64_t wait_ns;            /* PAUSES */
    struct supervise_history history;
};

/* How often a rank has ended or come back. */
struct supervise_epochs {
    uint32_t told; /* to all ranks */
    uint32_t said; /* by rank 0, which goes on with those who live then */
};

struct supervise_how { /* a process ended */
    bool by_signal;
    int number; /* the signal, or its status */
};

enum supervise_order_kind {
    SUPERVISE_CHECK,     /* the hosts; then supervise_unit_checked */
    SUPERVISE_LAUNCH,    /* all ranks, as the start of that number */
    SUPERVISE_TELL_GONE, /* the rank has died: all others are told */
    SUPERVISE_KILL,      /* all ranks */
    SUPERVISE_KILL_RANK,
    SUPERVISE_AGAIN,   /* the rank is started again, in the start of that number */
    SUPERVISE_ABANDON, /* killed ranks do not go away: agents of hosts that are so marked end */
    SUPERVISE_GIVE_UP, /* it cannot be started */
    /* News of what was found: */
    SUPERVISE_SAY_READY, /* after so long: since it began, or since it failed */
    SUPERVISE_SAY_STUCK, /* what `finding` says; with KILL or KILL_RANK */
    SUPERVISE_SAY_ENDED, /* the unit, which was ready */
    SUPERVISE_SAY_DIED,  /* the rank, whose unit was ready */
    SUPERVISE_SAY_UNREADY,
    SUPERVISE_SAY_WAITS,      /* so long before it starts again */
    SUPERVISE_SAY_RANK_BACK,  /* so long after it died */
    SUPERVISE_SAY_RANK_ENDED, /* before it was back; so long before it starts again */
    SUPERVISE_SAY_RANK_GIVEN_UP,
    SUPERVISE_ORDER_COUNT
};

struct supervise_order {
    enum supervise_order_kind kind;
    uint32_t number;          /* LAUNCH, AGAIN */
    uint32_t rank;            /* TELL_GONE, KILL_RANK, AGAIN, SAY_RANK_... */
    bool again;               /* SAY_READY: after a failure */
    int64_t ns;               /* SAY_READY, SAY_WAITS, SAY_RANK_BACK, SAY_RANK_ENDED */
    struct supervise_how how; /* SAY_RANK_ENDED, SAY_RANK_GIVEN_UP, SAY_UNREADY */
    bool has_ended;           /* SAY_UNREADY: so, by itself; else a host was lost */
    struct supervise_finding finding;
};

struct supervise_host {
    uint32_t first, count; /* its ranks */
    uint32_t left;         /* of them that run, as far as is known */
    bool is_abandoned;     /* in this start */
};

#define SUPERVISE_ORDERS_MAX 8

/* Zeros at first, but for what the owner gives. */
struct supervise_unit {
    struct supervise_host *hosts; /* [host_count] the owner's; ranks ascending */
    uint32_t host_count;
    struct supervise_signs *signs;    /* [watch.rank_count] the owner's */
    struct supervise_member *members; /* [watch.rank_count] the owner's */
    struct supervise_watch watch;     /* with the owner's ranks */
    struct supervise_timeout timeout; /* wall_ns 0: nobody is ever stuck */
    enum supervise_state state;
    uint32_t number; /* of the start */
    bool ready, has_ended, is_refused, host_lost;
    uint32_t ended_rank;      /* the first that ended, or the first that failed, and how: */
    struct supervise_how how; /* if has_ended */
    int64_t change_ns; /* since when the unit has not said that it goes on with the ranks that live
                        * by now; 0: it has */
    int64_t began_ns, state_ns; /* when this life, and this state, began */
    int64_t failed_ns;          /* when the last failure was seen; 0: it is over */
    int64_t wait_ns;            /* SUPERVISE_PAUSES */
    struct supervise_history history;
    struct supervise_order orders[SUPERVISE_ORDERS_MAX];
    uint32_t order_count;
};

/* The first time. */
void supervise_unit_start(struct supervise_unit *unit, int64_t now_ns);

/* All hosts have answered, and can run their ranks or not; or the launch did not succeed. */
void supervise_unit_checked(struct supervise_unit *unit, bool is_right, int64_t now_ns);

/* Of a rank, from its host's agent. False: of another start, and nothing. */
bool supervise_unit_sign(struct supervise_unit *unit, uint32_t number, uint32_t rank,
                         const struct supervise_signs *signs);

void supervise_unit_ended(struct supervise_unit *unit, uint32_t number, uint32_t rank,
                          struct supervise_how how, int64_t now_ns);

/* Its agent is lost, and with it what ran there. False: that means nothing now. */
bool supervise_unit_lose_host(struct supervise_unit *unit, uint32_t host, int64_t now_ns);

/* Of a rank that was started again: the others have been told of it. */
void supervise_unit_came(struct supervise_unit *unit, uint32_t rank);

/* Several times within the timeout. `heard`: all agents were, within half the timeout, and so ranks are
 * judged by the signs that they bring. */
void supervise_unit_tick(struct supervise_unit *unit, struct supervise_epochs epochs, bool heard,
                         int64_t now_ns);

/* Its end is no failure from now on. True: it is ready, and can be asked to end; else it is killed. */
bool supervise_unit_stop(struct supervise_unit *unit);

/* The next order, for its owner to carry out before anything else happens; false: there is none.
 * Carrying out may bring more. */
bool supervise_unit_next(struct supervise_unit *unit, struct supervise_order *order_out);

/* Ranks that were launched and have not ended, as far as is known. */
uint32_t supervise_unit_left(const struct supervise_unit *unit);

#endif
