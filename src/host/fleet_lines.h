/* SPDX-License-Identifier: Apache-2.0
 * A gateway's log lines about its units: a unit serves, with its role and its processes; its role
 * changes, or it drains; it is refused; it is lost, with the outcome of its requests. They are
 * derived from the records between gateway and units, so the machine itself logs nothing.
 * A unit is found by its connection, and lines name it by the gateway's number for it.
 *
 * The requests of a lost unit are followed until each is at another unit or has ended. One line
 * then has the number of requests that each unit got.
 */
#pragma once

#include "contract/record_unit.h"
#include "host/wire/request_set.h"

#define FLEET_LINES_LOSSES 8 /* lost units followed at once; a further one replaces the first */

struct fleet_lines_unit {
    uint32_t connection;      /* 0: none */
    uint32_t number;          /* the gateway's number for the unit */
    uint32_t job;             /* number of the supervisor in this process for it; 0: none */
    uint32_t role;            /* enum unit_role */
    int64_t pid;              /* pid of its rank 0 */
    bool is_refused;          /* and it is logged */
    struct request_set holds; /* requests that were sent to it and have not ended there */
};

struct fleet_lines_loss { /* a lost unit with requests that are not all moved yet */
    uint32_t unit, job;   /* unit 0: none */
    uint32_t requests, moved, ended;
    int64_t since_ns;
    uint32_t to[LIMIT_FLEET_UNITS], counts[LIMIT_FLEET_UNITS]; /* [to_count] units, requests */
    uint32_t to_count;
};

/* All zeros at first, except job_of and number_of. */
struct fleet_lines {
    /* Returns the job number of a process, or 0. NULL: no unit is a job of this process. */
    uint32_t (*job_of)(void *context, int64_t pid);
    void *job_context;
    /* Returns the gateway's number for the unit with this connection, after its hello. NULL: it is
     * the connection's number. */
    uint32_t (*number_of)(void *context, struct unit_id unit);
    void *number_context;
    struct fleet_lines_unit units[LIMIT_FLEET_UNITS]; /* last logged state of each */
    struct fleet_lines_loss losses[FLEET_LINES_LOSSES];
    uint32_t losses_used;
    struct request_set
        moving; /* requests without a unit now, any attempt; owner: index of the loss */
};

/* The gateway has received a record from this connection. */
void fleet_lines_received(struct fleet_lines *lines, uint32_t connection,
                          const struct record *record);

/* After that record the gateway ignores all further records of the unit. Logged once. */
void fleet_lines_refused(struct fleet_lines *lines, uint32_t connection,
                         const struct record *record);

/* A record is sent to a connection, or to the unit in this process (0). */
void fleet_lines_reported(struct fleet_lines *lines, uint32_t connection,
                          const struct record *record);

/* A request has ended for its client. */
void fleet_lines_ended(struct fleet_lines *lines, struct request_id request);

/* The unit's connection has ended. is_asked: this process is shutting down, with its units. */
void fleet_lines_lost(struct fleet_lines *lines, uint32_t connection, bool is_asked);

void fleet_lines_close(struct fleet_lines *lines);
