/* SPDX-License-Identifier: Apache-2.0
 * The state machine of a unit's supervisor. It has a link to an agent on each host of the unit,
 * asks all hosts what they have, and launches and watches all ranks. If rank 0 dies or is stuck, or
 * a host is lost, it kills all ranks. The unit is then restarted, at once or after a delay, or
 * given up. Any other stuck rank is killed alone. When a rank other than 0 dies, either rank 0
 * reports that the others continue, or the unit ends. The dead rank is then restarted in the same
 * way until it is given up, and the unit continues with it. A rank that hangs while it returns is
 * also killed.
 *
 * Events and the time are arguments. The machine returns orders, which the owner executes one after
 * another. Each start has a number, and events of another start are ignored.
 * host/process/agent/unit_hosts.h executes the orders, and so does the simulation.
 *
 * A host is lost if its link ends, or if nothing arrives over the link for the timeout. A host that
 * was asked what it has may take SUPERVISE_CONNECT_NS_MAX to answer, because it connects, reads the
 * files of the model, and sends nothing else meanwhile.
 *
 * A failing job is killed, not asked to exit, but only after a short delay. Before the job is
 * ready, the delay lets it write the reason and exit with its status. Later, the delay shows
 * whether a rank ended only because it had lost another one, which is then reported instead.
 */
#pragma once

#include "serving/supervision/supervise.h"

enum supervise_state {
    SUPERVISE_GIVEN_UP, /* given up, or not started yet */
    SUPERVISE_CHECKS,   /* its hosts are being asked what they have */
    SUPERVISE_RUNS,
    SUPERVISE_FAILS, /* a rank has exited, and the others get a short delay */
    SUPERVISE_ENDS,  /* it was killed */
    SUPERVISE_PAUSES,
    SUPERVISE_STATE_COUNT
};

enum supervise_member_state {
    SUPERVISE_MEMBER_ENDED, /* ended together with its unit */
    SUPERVISE_MEMBER_LIVES,
    SUPERVISE_MEMBER_PAUSES,
    SUPERVISE_MEMBER_RETURNS, /* restarted, but the others do not continue with it yet */
    SUPERVISE_MEMBER_GIVEN_UP
};

struct supervise_member { /* the state of a rank */
    enum supervise_member_state state;
    bool is_there;              /* in RETURNS: the others were notified of it */
    int64_t began_ns, state_ns; /* start of this run, and of this state; 0: started with the unit */
    int64_t died_ns;            /* first death since it last ran */
    int64_t wait_ns;            /* duration of PAUSES */
    struct supervise_history history;
};

/* Epochs: how often a rank has ended or returned. */
struct supervise_epochs {
    uint32_t reported; /* sent to all ranks */
    /* confirmed by rank 0, which continues with the ranks that were alive in this epoch */
    uint32_t said;
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
    bool connects, asks; /* CONNECT or ASK must still be ordered */
    bool is_asked;       /* it was asked over this link, and the answer is awaited */
    bool has_answered;   /* over this link */
    bool is_reachable;   /* others may try to reach it */
    struct supervise_hearing hearing;
};

#define SUPERVISE_ORDERS_MAX 16

/* Zeroed at the start, except for the fields of the owner and the ranks of its hosts. */
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
    uint32_t verified;                     /* number of verified hosts, in SUPERVISE_CHECKS */
    uint32_t reach_round, reaches_awaited; /* of this round */
    uint32_t reach_next;                   /* index of the next pair of hosts; host_count²: none */
    int64_t pinged_ns;
    uint32_t ended_rank;      /* the first rank that ended or failed, and how: */
    struct supervise_how how; /* if has_ended */
    /* time since which rank 0 has not confirmed the present epoch; 0: it has confirmed it */
    int64_t change_ns;
    int64_t began_ns, state_ns; /* start of this run, and of this state */
    int64_t failed_ns;          /* time of the last failure; 0: recovered */
    int64_t wait_ns;            /* SUPERVISE_PAUSES */
    struct supervise_history history;
    struct supervise_order orders[SUPERVISE_ORDERS_MAX];
    uint32_t order_count;
};

void supervise_unit_start(struct supervise_unit *unit, int64_t now_ns);

/* Handles the answer to ASK. `is_reachable`: other hosts may try to reach this one. */
void supervise_unit_answered(struct supervise_unit *unit, uint32_t host, bool is_reachable);

/* Handles the result of VERIFY for a host. `is_right`: the host can run its ranks. */
void supervise_unit_verified(struct supervise_unit *unit, uint32_t host, bool is_right,
                             int64_t now_ns);

/* Handles the answer to REACH. `is_right`: the host was reached, or need not be. */
void supervise_unit_reached(struct supervise_unit *unit, uint32_t round, bool is_right,
                            int64_t now_ns);

/* Notes that something arrived from the host. Returns false if it must be ignored, because the link
 * was given up. */
bool supervise_unit_received(struct supervise_unit *unit, uint32_t host, int64_t now_ns);

/* Handles the signs of a rank, from the agent of its host. Returns false if they belong to another
 * start. */
bool supervise_unit_sign(struct supervise_unit *unit, uint32_t number, uint32_t rank,
                         const struct supervise_signs *signs);

/* Handles the end of a rank's process on the host. */
void supervise_unit_ended(struct supervise_unit *unit, uint32_t host, uint32_t number,
                          uint32_t rank, struct supervise_how how, int64_t now_ns);

/* Handles the loss of a host: its link has ended or could not be made, and its ranks are lost. */
void supervise_unit_lose_host(struct supervise_unit *unit, uint32_t host, int64_t now_ns);

/* Notes that the other ranks were notified of a restarted rank. */
void supervise_unit_came(struct supervise_unit *unit, uint32_t rank);

/* Checks ranks, hosts and delays. Returns the time until the next call. */
int64_t supervise_unit_tick(struct supervise_unit *unit, struct supervise_epochs epochs,
                            int64_t now_ns);

/* Stops the unit. Its end is no failure from now on. A ready unit is asked to exit, any other one
 * is killed. */
void supervise_unit_stop(struct supervise_unit *unit);

/* Returns the next order, which the owner must execute before it does anything else; false if there
 * is none. Executing an order may add more. */
bool supervise_unit_next(struct supervise_unit *unit, struct supervise_order *order_out);

/* The number of launched ranks that have not ended, as far as known. */
uint32_t supervise_unit_left(const struct supervise_unit *unit);
