/* SPDX-License-Identifier: Apache-2.0
 * The machine of an agent, which runs a unit's ranks on one host for the unit's supervisor. It
 * decides which orders to start ranks count, when signs of life are sent, what is reported about a
 * start, a restart and an end, and when the supervisor is given up. It decides nothing about the
 * unit: the supervisor finds stuck ranks and restarts them.
 *
 * Events and the time are arguments, and what is to be sent is returned. host/process/agent/agent.h
 * runs it, and so does the simulation.
 */
#pragma once

#include "serving/supervision/supervise_unit.h"

/* Zeroed at the start, except for `hearing`. */
struct supervise_agent {
    int64_t timeout_ns; /* the owner's, from the supervisor: limit of its silence; 0: none */
    struct supervise_hearing hearing; /* the owner's, too: of the supervisor */
    uint32_t number, first, count; /* of the last start, and its ranks here; count 0: it failed */
    uint32_t changes;              /* when signs were last sent */
    int64_t signed_ns;
};

/* A report to the supervisor. */
struct supervise_agent_report {
    bool signs;               /* the signs of all ranks here; they are sent first */
    uint32_t rank, count;     /* the ends of `count` ranks from `rank` on; 0: none */
    struct supervise_how how; /* they ended like this */
};

/* The supervisor's LAUNCH, of `count` ranks from `first` on. The ranks of the last start are killed
 * and not reported. `succeeded`: all are launched, else none. */
void supervise_agent_launch(struct supervise_agent *agent, uint32_t number, uint32_t first,
                            uint32_t count);
struct supervise_agent_report supervise_agent_launched(struct supervise_agent *agent,
                                                       bool succeeded);

/* The supervisor's AGAIN. Returns false if it is of another start, or the rank is not here. */
bool supervise_agent_restarts(const struct supervise_agent *agent, uint32_t number, uint32_t rank);
struct supervise_agent_report supervise_agent_restarted(uint32_t rank, bool succeeded);

/* The process of a rank has ended. */
struct supervise_agent_report supervise_agent_ended(uint32_t rank, struct supervise_how how);

struct supervise_agent_next {
    bool signs;        /* the signs of all ranks here are to be sent */
    int64_t silent_ns; /* the agent ends, and kills its ranks: nothing arrived for so long; 0: no */
    int64_t wait_ns;   /* until the next look */
};

/* `changes`: how many ranks here have joined, how many of those are ready, and rank 0's epoch,
 * added; signs are sent at once if it changes. */
struct supervise_agent_next supervise_agent_look(struct supervise_agent *agent, uint32_t changes,
                                                 int64_t now_ns);
