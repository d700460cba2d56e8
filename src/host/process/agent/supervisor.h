/* SPDX-License-Identifier: Apache-2.0
 * Starts units as processes, watches their ranks, and starts again what ends. A unit of several ranks
 * is one job, on one host or on several (host/process/agent/unit_hosts.h). When a rank other than 0 dies, or
 * is killed here since it stands still, the others may go on, and the rank is started again to come
 * back to them. Else, and when a host is lost, the job ends and starts as a whole.
 *
 * The agent sees the death of a rank, its child, at once; a rank that is stuck is detected by its
 * heartbeats (serving/supervision/supervise.h); an agent or a host, by its silence. All this is
 * decided in serving/supervision/supervise_unit.h. A unit that starts again has the role that it had. In any
 * case one line names unit, rank, host, pid and where in the model it was.
 *
 * Packed weights and whatever units of this machine share lie in a private folder: it goes with the
 * supervisor, and what a killed one left behind goes with the next one's start. Units die with their
 * supervisor. Lives in the event loop's one thread.
 */
#pragma once

#include "base/status.h"
#include "contract/record_unit.h"
#include "host/process/agent/unit_hosts.h"
#include "host/process/configuration/host_list.h"

#include <stdint.h>

struct event_base;
struct supervisor;

struct supervisor_options {
    struct unit_hosts_options units;
    uint32_t unit_count;
    const uint32_t *rank_counts;   /* [unit_count] */
    const struct host_list *hosts; /* units fill them in their order; NULL: this machine alone */
    int64_t rank_timeout_ns;       /* of a rank with a CPU of its own; 0: none is ever stuck */
    int64_t finish_ns_max;         /* that units get to end; 0: a few seconds */
    /* No unit is left that could be started. `context`: that of `units`. */
    void (*gave_up)(void *context, const struct error *error);
};

/* Makes the private folder; starts nothing yet. INVALID: the hosts have too few slots. */
enum status supervisor_open(const struct supervisor_options *options,
                            struct supervisor **supervisor_out, struct error *error) MUST_USE;

/* Lives as long as the supervisor. */
const char *supervisor_folder(const struct supervisor *supervisor);

/* The number under which it runs that process, a rank or a unit of one; 0: it does not. */
uint32_t supervisor_job_of(const struct supervisor *supervisor, int64_t pid);

/* Every unit's rank 0 is on this machine. */
bool supervisor_leads_here(const struct supervisor *supervisor);

/* Before it starts: files for all agents, [count]; they live as long as the supervisor. */
void supervisor_give_files(struct supervisor *supervisor, const struct unit_host_file *files,
                           uint32_t count);

void supervisor_start(struct supervisor *supervisor);

/* Lets all units finish, and waits for that: not for ever. */
void supervisor_stop(struct supervisor *supervisor);

/* Kills what runs, and removes the folder. */
void supervisor_close(struct supervisor *supervisor);
