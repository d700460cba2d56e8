/* SPDX-License-Identifier: Apache-2.0
 * Starts units as processes, watches their ranks, and restarts what ends. A unit of several ranks
 * is one job on one or several hosts (host/process/agent/unit_hosts.h). If a rank other than 0
 * dies, or is killed here because it is stuck, the others may continue, and the rank is restarted
 * and rejoins them. Otherwise, and if a host is lost, the whole job is restarted.
 *
 * The agent sees the death of a rank, its child, at once. A stuck rank is detected by its
 * heartbeats (serving/supervision/supervise.h), a lost agent or host by its silence. The decisions
 * are made in serving/supervision/supervise_unit.h. A restarted unit keeps its role. In each case a
 * log line names unit, rank, host, pid and the position in the model.
 *
 * Packed weights and other files that units of this machine share are in a private folder. It is
 * removed with the supervisor; if the supervisor was killed, the next one removes it. Units die
 * with their supervisor. It is used in the event loop's thread only.
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
    const struct host_list *hosts; /* filled by the units in order; NULL: only this machine */
    int64_t rank_timeout_ns;       /* for a rank with its own CPU; 0: no rank counts as stuck */
    int64_t finish_ns_max;         /* time limit for units to finish; 0: a few seconds */
    /* No unit is left that can be restarted. `context` is that of `units`. */
    void (*gave_up)(void *context, const struct error *error);
};

/* Creates the private folder, but starts nothing. STATUS_INVALID: the hosts have too few slots. */
enum status supervisor_open(const struct supervisor_options *options,
                            struct supervisor **supervisor_out, struct error *error) MUST_USE;

/* The path of the private folder; valid as long as the supervisor. */
const char *supervisor_folder(const struct supervisor *supervisor);

/* The job number of a process, a rank or a unit of one rank; 0: it is not the supervisor's. */
uint32_t supervisor_job_of(const struct supervisor *supervisor, int64_t pid);

/* True if every unit's rank 0 is on this machine. */
bool supervisor_leads_here(const struct supervisor *supervisor);

/* Sets files for all agents, [count], before the start. They must outlive the supervisor. */
void supervisor_give_files(struct supervisor *supervisor, const struct unit_host_file *files,
                           uint32_t count);

void supervisor_start(struct supervisor *supervisor);

/* Ends all units and waits for them, for a limited time. */
void supervisor_stop(struct supervisor *supervisor);

/* Kills running units, and removes the folder. */
void supervisor_close(struct supervisor *supervisor);
