/* SPDX-License-Identifier: Apache-2.0
 * A gateway's log lines about its units: a unit serves, with its role and its processes; it gets
 * another role or drains; it is refused; it is lost, and the outcome of its requests. They are
 * derived from the records between gateway and units, so the machine itself logs nothing.
 *
 * Requests of a unit that is gone are followed until each is at another unit or has ended; then one
 * line says how many went where.
 */
#pragma once

#include "contract/record_unit.h"
#include "host/wire/request_set.h"

#define FLEET_LINES_LOSSES 8 /* of units, that are followed at the same time; the first makes way */

struct fleet_lines_unit {
    uint32_t number;          /* 0: none */
    uint32_t job;             /* that the supervisor in this process starts it under; 0: none */
    uint32_t role;            /* enum unit_role */
    int64_t pid;              /* of its rank 0 */
    bool is_refused;          /* and the log says so */
    struct request_set holds; /* requests that were given to it and have not ended there */
};

struct fleet_lines_loss { /* of a unit with requests that were not all moved yet */
    uint32_t unit, job;   /* unit 0: none */
    uint32_t requests, moved, ended;
    int64_t since_ns;
    uint32_t to[LIMIT_FLEET_UNITS], counts[LIMIT_FLEET_UNITS]; /* [to_count] units, and how many */
    uint32_t to_count;
};

/* Zero it to start, but for job_of. */
struct fleet_lines {
    /* The job of the process, or 0. NULL: no unit is a job of this process. */
    uint32_t (*job_of)(void *context, int64_t pid);
    void *job_context;
    struct fleet_lines_unit units[LIMIT_FLEET_UNITS]; /* what was said of each last */
    struct fleet_lines_loss losses[FLEET_LINES_LOSSES];
    uint32_t losses_used;
    struct request_set
        moving; /* requests that have no unit now, whatever their attempt; owner: a loss */
};

/* A record has come from the unit of this number. */
void fleet_lines_received(struct fleet_lines *lines, uint32_t number, const struct record *record);

/* After that record the gateway will have nothing more of that unit. Said once. */
void fleet_lines_refused(struct fleet_lines *lines, uint32_t number, const struct record *record);

/* A record goes to the unit of this number, or has come to the unit in this process (0). */
void fleet_lines_reported(struct fleet_lines *lines, uint32_t number, const struct record *record);

/* A request has ended, for its client. */
void fleet_lines_ended(struct fleet_lines *lines, struct request_id request);

/* Its connection has ended. is_asked: this process ends, and units with it. */
void fleet_lines_lost(struct fleet_lines *lines, uint32_t number, bool is_asked);

void fleet_lines_close(struct fleet_lines *lines);
