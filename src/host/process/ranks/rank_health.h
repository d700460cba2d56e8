/* SPDX-License-Identifier: Apache-2.0
 * A unit's board: a line for each rank, in a file that the supervisor and the ranks map. A rank
 * writes its own line, without locks; the supervisor reads them all. On rank 0's line stands the
 * role that the unit has by now, so that it has it again when it is started anew.
 */
#ifndef HOST_PROCESS_RANKS_RANK_HEALTH_H
#define HOST_PROCESS_RANKS_RANK_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heartbeat.h"
#include "base/status.h"
#include "contract/record_unit.h"

struct rank_line {
    _Alignas(128) struct heartbeat heartbeat;
    _Atomic int64_t pid; /* 0: not there yet; written last */
    char host[64];
    _Atomic uint32_t epoch; /* rank 0's: of the job, with its present ranks */
    _Atomic uint32_t role;  /* enum unit_role and 1; 0: never set */
};

struct rank_health {
    struct rank_line *lines; /* [rank_count] */
    uint32_t rank_count;
};

/* The supervisor's: makes the file anew. */
enum status rank_health_create(const char *path, uint32_t rank_count,
                               struct rank_health *health_out, struct error *error) MUST_USE;
void rank_health_close(struct rank_health *health);
/* A rank's line is as if it had never come. */
void rank_health_clear(struct rank_health *health, uint32_t rank);

/* A rank's: signs on, and gives its signs of life there from now on, for the life of the process.
 */
enum status rank_health_join(const char *path, uint32_t rank, struct error *error) MUST_USE;

/* Rank 0's; nothing happens where no board was joined. */
void rank_health_report_role(enum unit_role role);

/* Ranks have died or come back, and those of this epoch go on; or the unit ends by itself. */
void rank_health_report_epoch(uint32_t epoch);

#define RANK_HEALTH_TEXT 160

/* How a process of the unit exits for the supervisor to start the unit again: not for an error that
 * would be the same the next time. */
#define RANK_HEALTH_STARTS_AGAIN 3

/* Who and where a rank is, in the model too, for a line of the log. */
void rank_health_describe(const struct rank_line *line, char text[static RANK_HEALTH_TEXT]);

/* A local process's CPU time: nanoseconds of its first thread, and of all threads to a hundredth of a
 * second. 0: not known. */
uint64_t rank_health_run_ns(int64_t pid);
int64_t rank_health_cpu_ns(int64_t pid);

/* Returns false if the role was never set. */
bool rank_health_read_role(const struct rank_health *health, enum unit_role *role_out);

#endif
