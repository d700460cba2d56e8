/* SPDX-License-Identifier: Apache-2.0
 * Decides when the ledger's thread begins its next transaction. A transaction for twenty records
 * costs the same as for one (a begin, a flush of the disk, shared pages). So transactions begin
 * some milliseconds apart, and each includes all records that arrived meanwhile. The first record
 * after a pause does not wait. After a failure (a full disk) the next attempt is a second later.
 *
 * The interval is the longest time that an answer's last bytes wait for other records; the mean is
 * half of it. docs/performance/serving.md has the savings.
 *
 * Pure: times in, a time out. Times are nanoseconds of any monotonic clock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define GROUP_COMMIT_APART_NS ((int64_t)8000000)    /* from one begin to the next */
#define GROUP_COMMIT_AGAIN_NS ((int64_t)1000000000) /* from a failure to the next attempt */
#define GROUP_COMMIT_MAX 4096                       /* limit of records per transaction */

/* Initialize with zeros. */
struct group_commit {
    int64_t begun_ns;  /* begin of the last transaction */
    int64_t failed_ns; /* time of its failure; 0: none */
};

/* The time at which waiting records may be written. */
int64_t group_commit_due_ns(const struct group_commit *commits);

/* Decides whether a transaction begins now with `records` records. `more_come`: further records are
 * queued and will be read without delay. */
bool group_commit_now(const struct group_commit *commits, uint32_t records, bool more_come,
                      int64_t now_ns);
