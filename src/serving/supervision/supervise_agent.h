/* SPDX-License-Identifier: Apache-2.0
 * The state machine of an agent, which runs a unit's ranks on one host for the unit's supervisor.
 * It decides which orders are valid, when heartbeats are sent, what is reported about a start, a
 * restart and an end, and when the supervisor counts as lost. It makes no decisions about the unit:
 * the supervisor finds stuck ranks and restarts them.
 *
 * Events and the time are arguments, and the reports to send are returned.
 * host/process/agent/agent.h runs it, and so does the simulation.
 */
#pragma once

#include "serving/supervision/supervise_unit.h"

struct supervise_agent {
    /* the limit of the supervisor's silence, set by the owner from the supervisor's first order;
     * 0: none */
    int64_t timeout_ns;
    struct supervise_hearing hearing; /* set by the owner, too: last receipt from the supervisor */
    /* number of the last start, and its ranks on this host; count 0: it failed */
    uint32_t number, first, count;
    uint32_t changes; /* value of `changes` when signs were last sent */
    int64_t signed_ns;
};

/* Begins at that time. Until the first order sets a limit, the supervisor may be silent for
 * SUPERVISE_CONNECT_NS_MAX, so that an agent ends that its supervisor has lost at once. */
void supervise_agent_open(struct supervise_agent *agent, int64_t now_ns);

/* A report to the supervisor. */
struct supervise_agent_report {
    bool signs;               /* include the signs of all ranks on this host; they are sent first */
    uint32_t rank, count;     /* the ends of `count` ranks from `rank` on; 0: none */
    struct supervise_how how; /* they ended like this */
};

/* Handles the supervisor's LAUNCH of `count` ranks from `first` on. The ranks of the last start are
 * killed and not reported. `succeeded`: all ranks were launched; otherwise none. */
void supervise_agent_launch(struct supervise_agent *agent, uint32_t number, uint32_t first,
                            uint32_t count);
struct supervise_agent_report supervise_agent_launched(struct supervise_agent *agent,
                                                       bool succeeded);

/* Handles the supervisor's AGAIN. Returns false if it belongs to another start, or if the rank is
 * not on this host. */
bool supervise_agent_restarts(const struct supervise_agent *agent, uint32_t number, uint32_t rank);
struct supervise_agent_report supervise_agent_restarted(uint32_t rank, bool succeeded);

/* Handles the end of a rank's process. */
struct supervise_agent_report supervise_agent_ended(uint32_t rank, struct supervise_how how);

struct supervise_agent_next {
    bool signs; /* send the signs of all ranks on this host */
    /* nothing arrived for so long that the agent kills its ranks and ends; 0: it continues */
    int64_t silent_ns;
    int64_t wait_ns; /* time until the next call */
};

/* Must be called regularly. `changes` is the sum of the ranks on this host that have joined, of
 * those that are ready, and of rank 0's epoch. Signs are sent at once if it changes. */
struct supervise_agent_next supervise_agent_look(struct supervise_agent *agent, uint32_t changes,
                                                 int64_t now_ns);
