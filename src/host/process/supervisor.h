/* SPDX-License-Identifier: Apache-2.0
 * Starts units as processes, watches their ranks, and starts a unit again when one of its ranks
 * dies or stands still. A unit of several ranks is one job: it ends and starts as a whole.
 *
 * A death is seen at once, through the pids on the unit's board; a rank that stands still, through
 * its signs of life there (serving/policy/supervise.h). A unit that starts again has the role that
 * it had. Either way one line names unit, rank, host, pid and where in the model it was; what is
 * left of the job is killed, and it starts anew.
 *
 * All files of a job lie in a private folder: they go with it, and what a killed supervisor left behind goes with the next one's start. Units die
 * with their supervisor. Lives in the event loop's one thread.
 */
#ifndef HOST_PROCESS_SUPERVISOR_H
#define HOST_PROCESS_SUPERVISOR_H

#include "base/status.h"
#include "contract/record_unit.h"

#include <stdint.h>

struct event_base;
struct supervisor;

struct supervisor_unit { /* what a start of a unit is told */
    uint32_t number;     /* 1.. */
    const char *folder;  /* for this job's own files; it exists */
    const char *board;   /* rank_board_join */
    bool has_role;       /* it said so when it ran last: */
    enum unit_role role;
};

struct supervisor_options {
    struct event_base *base;
    uint32_t unit_count;
    const uint32_t *rank_counts; /* [unit_count] */
    int64_t rank_timeout_ns;     /* of a rank with a CPU of its own; 0: none is ever stuck */
    void *context;
    /* The command of a unit's ranks, argv[0] being a path; freed, as one piece, by the supervisor. NULL: no memory. */
    const char **(*command)(void *context, const struct supervisor_unit *unit);
    /* No unit is left that could be started. */
    void (*gave_up)(void *context, const struct error *error);
};

/* Makes the private folder; starts nothing yet. */
enum status supervisor_open(const struct supervisor_options *options,
                            struct supervisor **supervisor_out, struct error *error) MUST_USE;

/* Lives as long as the supervisor. */
const char *supervisor_folder(const struct supervisor *supervisor);

/* The number under which it runs that process, a rank or a unit of one; 0: it does not. */
uint32_t supervisor_job_of(const struct supervisor *supervisor, int64_t pid);

void supervisor_start(struct supervisor *supervisor);

/* Lets all units finish, and waits for that: not for ever. */
void supervisor_stop(struct supervisor *supervisor);

/* Kills what runs, and removes the folder. */
void supervisor_close(struct supervisor *supervisor);

#endif
