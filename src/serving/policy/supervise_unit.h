/* SPDX-License-Identifier: Apache-2.0
 * A unit's life as its supervisor decides it: its hosts are checked, all ranks are launched, watched,
 * and killed when one of them dies or stands still or a host is lost; then the unit starts again, at
 * once or after a while, or is given up. Ranks that others can go on without are waited for: rank 0
 * says how many it goes on with, or the unit ends.
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

struct supervise_how { /* a process ended */
    bool by_signal;
    int number; /* the signal, or its status */
};

enum supervise_order_kind {
    SUPERVISE_CHECK,     /* the hosts; then supervise_unit_checked */
    SUPERVISE_LAUNCH,    /* all ranks, as the start of that number */
    SUPERVISE_TELL_GONE, /* the rank has died: all others are told */
    SUPERVISE_KILL,      /* all ranks */
    SUPERVISE_ABANDON,   /* killed ranks do not go away: agents of hosts that are so marked end */
    SUPERVISE_GIVE_UP,   /* it cannot be started */
    /* News of what was found: */
    SUPERVISE_SAY_READY, /* after so long: since it began, or since it failed */
    SUPERVISE_SAY_STUCK, /* what `finding` says */
    SUPERVISE_SAY_ENDED, /* the unit, which was ready */
    SUPERVISE_SAY_DIED,  /* the rank, whose unit was ready */
    SUPERVISE_SAY_UNREADY,
    SUPERVISE_SAY_WAITS, /* so long before it starts again */
    SUPERVISE_ORDER_COUNT
};

struct supervise_order {
    enum supervise_order_kind kind;
    uint32_t number; /* LAUNCH */
    uint32_t rank;   /* TELL_GONE */
    bool again;      /* SAY_READY: after a failure */
    int64_t ns;      /* SAY_READY, SAY_WAITS */
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
    struct supervise_watch watch;     /* with the owner's ranks */
    struct supervise_timeout timeout; /* wall_ns 0: nobody is ever stuck */
    enum supervise_state state;
    uint32_t number; /* of the start */
    bool ready, has_ended, is_refused, host_lost;
    uint32_t ended_rank;      /* the first that ended, or the first that failed, and how: */
    struct supervise_how how; /* if has_ended */
    uint32_t lost_count;      /* ranks that have died while the unit was ready */
    int64_t lost_ns; /* since when the unit has not said that it goes on without them; 0: it has */
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

/* Several times within the timeout. `goes_on`: ranks that rank 0 goes on with, 0: all; `heard`: all
 * agents were, within half the timeout, and so ranks are judged by the signs that they bring. */
void supervise_unit_tick(struct supervise_unit *unit, uint32_t goes_on, bool heard, int64_t now_ns);

/* Its end is no failure from now on. True: it is ready, and can be asked to end; else it is killed. */
bool supervise_unit_stop(struct supervise_unit *unit);

/* The next order, for its owner to carry out before anything else happens; false: there is none.
 * Carrying out may bring more. */
bool supervise_unit_next(struct supervise_unit *unit, struct supervise_order *order_out);

/* Ranks that were launched and have not ended, as far as is known. */
uint32_t supervise_unit_left(const struct supervise_unit *unit);

#endif
