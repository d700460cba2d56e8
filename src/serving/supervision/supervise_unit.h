/* SPDX-License-Identifier: Apache-2.0
 * The machine of a unit's supervisor. It has a link to an agent on each of the unit's hosts, asks
 * all hosts what they have, launches and watches all ranks, and kills them when rank 0 dies or is
 * stuck or a host is lost. Then the unit is restarted, at once or after a delay, or given up. Any
 * other stuck rank is killed alone. When a rank other than 0 dies, rank 0 reports that the others
 * continue, or the unit ends. The dead rank is then restarted in the same way, until it is given
 * up, and the unit continues with it. A rank that hangs while it returns is also killed.
 *
 * Events and the time are arguments, and it returns orders, to be executed one after another. Each
 * start has a number, and events of another start are ignored. host/process/agent/unit_hosts.h
 * executes the orders, and so does the simulation.
 *
 * A host is lost if its link ends, or if nothing arrives over it for the timeout. A host that was
 * asked what it has may take CONNECT_NS_MAX: it connects, reads the model's files, and answers
 * nothing else meanwhile.
 *
 * A failing job is killed, not asked to exit. It first gets a short delay. Before it is ready, it
 * uses the delay to write the reason and its exit status. Later, ranks that end may have lost
 * another rank, which is then reported.
 */
#pragma once

#include "serving/supervision/supervise.h"

enum supervise_state {
    SUPERVISE_GIVEN_UP, /* given up, or not started yet */
    SUPERVISE_CHECKS,   /* its hosts are asked */
    SUPERVISE_RUNS,
    SUPERVISE_FAILS, /* a rank has exited; the others get a short delay */
    SUPERVISE_ENDS,  /* it was killed */
    SUPERVISE_PAUSES,
    SUPERVISE_STATE_COUNT
};

enum supervise_member_state {
    SUPERVISE_MEMBER_ENDED, /* with its unit */
    SUPERVISE_MEMBER_LIVES,
    SUPERVISE_MEMBER_PAUSES,
    SUPERVISE_MEMBER_RETURNS, /* it was restarted, but the others have not continued with it yet */
    SUPERVISE_MEMBER_GIVEN_UP
};

struct supervise_member { /* the state of a rank */
    enum supervise_member_state state;
    bool is_there;              /* RETURNS: the others were notified */
    int64_t began_ns, state_ns; /* start of this run, and of this state; 0: with the unit */
    int64_t died_ns;            /* first death since it last ran */
    int64_t wait_ns;            /* duration of PAUSES */
    struct supervise_history history;
};

/* Counts how often a rank has ended or returned. */
struct supervise_epochs {
    uint32_t reported; /* sent to all ranks */
    uint32_t said;     /* confirmed by rank 0, which continues with the ranks alive at that count */
};

struct supervise_how { /* how a process ended */
    bool by_signal;
    int number; /* signal or exit status */
};

enum supervise_order_kind {
    /* Links: */
    SUPERVISE_CONNECT, /* start an agent on the host; close the host's last link, if it is open */
    SUPERVISE_ASK,     /* ask the host what it has, then call supervise_unit_answered */
    SUPERVISE_REACH,   /* ask `host` whether it reaches `other`, then call supervise_unit_reached */
    SUPERVISE_PING,    /* send a PING over all links */
    SUPERVISE_ABANDON, /* killed ranks do not exit: close the links of marked hosts */
    /* Hosts and ranks: */
    SUPERVISE_VERIFY,      /* all hosts answered: call supervise_unit_verified for each */
    SUPERVISE_LAUNCH,      /* launch all ranks; `number` is the number of the start */
    SUPERVISE_REPORT_GONE, /* the rank has died: notify all others */
    SUPERVISE_KILL,        /* kill the rank, or SUPERVISE_ALL_RANKS */
    SUPERVISE_FINISH,      /* ask rank 0 to exit, which ends the unit */
    SUPERVISE_AGAIN,       /* restart the rank; `number` is the number of the start */
    SUPERVISE_GIVE_UP,     /* the unit cannot be started */
    /* Reports: */
    SUPERVISE_SAY_STARTS, /* the processes of a start are known */
    SUPERVISE_SAY_READY,  /* the unit is ready; `ns` since its start or its failure */
    SUPERVISE_SAY_LOST, /* the host is lost; `ns`: nothing arrived for so long; 0: its link ended */
    SUPERVISE_SAY_STUCK, /* `finding`, together with KILL */
    SUPERVISE_SAY_ENDED, /* a unit that was ready has ended */
    SUPERVISE_SAY_DIED,  /* a rank of a ready unit has died */
    SUPERVISE_SAY_UNREADY,
    SUPERVISE_SAY_WAITS,      /* `ns` until the next start */
    SUPERVISE_SAY_RANK_BACK,  /* `ns` since the rank died */
    SUPERVISE_SAY_RANK_ENDED, /* the rank ended before it was ready; `ns` until the next start */
    SUPERVISE_SAY_RANK_GIVEN_UP,
    SUPERVISE_ORDER_COUNT
};

#define SUPERVISE_ALL_RANKS UINT32_MAX

struct supervise_order {
    enum supervise_order_kind kind;
    uint32_t host;            /* CONNECT, ASK, REACH, SAY_LOST */
    uint32_t other, round;    /* REACH */
    uint32_t number;          /* LAUNCH, AGAIN */
    uint32_t rank;            /* REPORT_GONE, KILL, AGAIN, SAY_RANK_... */
    bool again;               /* SAY_READY: after a failure */
    int64_t ns;               /* SAY_READY, SAY_LOST, SAY_WAITS, SAY_RANK_BACK, SAY_RANK_ENDED */
    struct supervise_how how; /* SAY_RANK_ENDED, SAY_RANK_GIVEN_UP, SAY_UNREADY */
    bool has_ended;           /* SAY_UNREADY: the unit exited; else a host was lost */
    struct supervise_finding finding;
};

struct supervise_host {
    uint32_t first, count; /* its ranks */
    uint32_t left;         /* ranks that run, as far as known */
    bool is_abandoned;     /* in this start */
    bool is_linked;
    bool connects, asks; /* CONNECT, ASK: to be ordered */
    bool is_asked;       /* over this link; its answer is awaited */
    bool has_answered;   /* over this link */
    bool is_reachable;   /* others may try to reach it */
    struct supervise_hearing hearing;
};

#define SUPERVISE_ORDERS_MAX 16

/* Zeroed at the start, except for the owner's fields and the ranks of its hosts. */
struct supervise_unit {
    struct supervise_host *hosts; /* [host_count] the owner's; ranks ascending */
    uint32_t host_count;
    struct supervise_signs *signs;    /* [watch.rank_count] the owner's */
    struct supervise_member *members; /* [watch.rank_count] the owner's */
    struct supervise_watch watch;     /* with the owner's ranks */
    struct supervise_timeout timeout; /* wall_ns 0: no rank is ever stuck */
    enum supervise_state state;
    uint32_t number; /* number of the start */
    bool has_said_starts, ready, has_ended, is_refused, host_lost;
    uint32_t verified;                     /* hosts, in SUPERVISE_CHECKS */
    uint32_t reach_round, reaches_awaited; /* of this round */
    uint32_t reach_next;                   /* index of the next pair of hosts; host_count²: none */
    int64_t pinged_ns;
    uint32_t ended_rank;      /* the first rank that ended or failed, and how: */
    struct supervise_how how; /* if has_ended */
    /* time since which rank 0 has not confirmed the present set of ranks; 0: it has */
    int64_t change_ns;
    int64_t began_ns, state_ns; /* start of this run, and of this state */
    int64_t failed_ns;          /* time of the last failure; 0: recovered */
    int64_t wait_ns;            /* SUPERVISE_PAUSES */
    struct supervise_history history;
    struct supervise_order orders[SUPERVISE_ORDERS_MAX];
    uint32_t order_count;
};

void supervise_unit_start(struct supervise_unit *unit, int64_t now_ns);

/* The answer to ASK arrived. `is_reachable`: other hosts may try to reach this one. */
void supervise_unit_answered(struct supervise_unit *unit, uint32_t host, bool is_reachable);

/* The result of VERIFY for a host: is_right if it can run its ranks. */
void supervise_unit_verified(struct supervise_unit *unit, uint32_t host, bool is_right,
                             int64_t now_ns);

/* The answer to REACH: is_right if the host was reached, or need not be. */
void supervise_unit_reached(struct supervise_unit *unit, uint32_t round, bool is_right,
                            int64_t now_ns);

/* Something arrived from the host. Returns false if its link was given up: then it is ignored. */
bool supervise_unit_received(struct supervise_unit *unit, uint32_t host, int64_t now_ns);

/* Signs of a rank, from its host's agent. Returns false if they belong to another start. */
bool supervise_unit_sign(struct supervise_unit *unit, uint32_t number, uint32_t rank,
                         const struct supervise_signs *signs);

/* The process of a rank has ended on the host. */
void supervise_unit_ended(struct supervise_unit *unit, uint32_t host, uint32_t number,
                          uint32_t rank, struct supervise_how how, int64_t now_ns);

/* The link to a host has ended or could not be made, and the ranks there are lost. */
void supervise_unit_lose_host(struct supervise_unit *unit, uint32_t host, int64_t now_ns);

/* The other ranks were notified of a restarted rank. */
void supervise_unit_came(struct supervise_unit *unit, uint32_t rank);

/* Returns the time until the next call. */
int64_t supervise_unit_tick(struct supervise_unit *unit, struct supervise_epochs epochs,
                            int64_t now_ns);

/* From now on the end of the unit is not a failure. A unit that is ready is asked to exit, any
 * other is killed. */
void supervise_unit_stop(struct supervise_unit *unit);

/* The next order, which the owner must execute before anything else; false if there is none.
 * Executing an order may add more. */
bool supervise_unit_next(struct supervise_unit *unit, struct supervise_order *order_out);

/* The number of launched ranks that have not ended, as far as known. */
uint32_t supervise_unit_left(const struct supervise_unit *unit);
