/* SPDX-License-Identifier: Apache-2.0
 * The health table of a unit: a line for each rank, in a file that the supervisor and the ranks map
 * into memory. Each rank writes its own line without locks, and the supervisor reads all lines. The
 * line of rank 0 also has the unit's current role, so that a restarted unit keeps it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/heartbeat.h"
#include "base/status.h"
#include "contract/record_unit.h"

struct rank_line {
    _Alignas(128) struct heartbeat heartbeat;
    _Atomic int64_t pid; /* 0: not there yet; written last */
    char host[64];
    _Atomic uint32_t epoch; /* of rank 0: the job's epoch, which changes with its set of ranks */
    _Atomic uint32_t role;  /* enum unit_role + 1; 0: never set */
};

struct rank_health {
    struct rank_line *lines; /* [rank_count] */
    uint32_t rank_count;
};

/* For the supervisor: creates the file. */
enum status rank_health_create(const char *path, uint32_t rank_count,
                               struct rank_health *health_out, struct error *error) MUST_USE;
void rank_health_close(struct rank_health *health);
/* Resets the line of a rank. */
void rank_health_clear(struct rank_health *health, uint32_t rank);

/* For a rank: opens the file and writes the process's heartbeats to its line from now on. */
enum status rank_health_join(const char *path, uint32_t rank, struct error *error) MUST_USE;

/* For rank 0: stores the unit's role. Does nothing without a health table. */
void rank_health_report_role(enum unit_role role);

/* For rank 0: stores the epoch of the job, which changes when a rank has died or rejoined. */
void rank_health_report_epoch(uint32_t epoch);

#define RANK_HEALTH_TEXT 160

/* Exit code after which the supervisor restarts the unit. It is not used for an error that a
 * restart would repeat. */
#define RANK_HEALTH_STARTS_AGAIN 3

/* Describes a rank, its host and its position in the model for a log line. */
void rank_health_describe(const struct rank_line *line, char text[static RANK_HEALTH_TEXT]);

/* CPU time of a process on this host in nanoseconds; 0: unknown. run: of its first thread. cpu: of
 * all threads, with a resolution of 10 ms. */
uint64_t rank_health_run_ns(int64_t pid);
int64_t rank_health_cpu_ns(int64_t pid);

/* Returns false if the role was never set. */
bool rank_health_read_role(const struct rank_health *health, enum unit_role *role_out);
