/* SPDX-License-Identifier: Apache-2.0
 * Decides when the ledger's thread begins its next transaction. A transaction costs the same for
 * one entry as for twenty (a begin, a flush of the disk, shared pages). So transactions begin some
 * milliseconds apart, and each includes all entries that arrived meanwhile. The first entry after a
 * pause does not wait. After a failure (a full disk) the next try is a second later.
 *
 * The interval is the most that an answer's last bytes wait for other entries; on average it is
 * half of it. docs/performance/serving.md has the savings.
 *
 * Pure: times in, a time out. Times are nanoseconds of any monotonic clock.
 */
#ifndef HOST_LEDGER_GROUP_COMMIT_H
#define HOST_LEDGER_GROUP_COMMIT_H

#include <stdbool.h>
#include <stdint.h>

#define GROUP_COMMIT_APART_NS ((int64_t)8000000)    /* from one begin to the next */
#define GROUP_COMMIT_AGAIN_NS ((int64_t)1000000000) /* from a failure to the next try */
#define GROUP_COMMIT_MAX 4096                       /* records of a transaction */

/* Zero it to start. */
struct group_commit {
    int64_t begun_ns;  /* the last transaction */
    int64_t failed_ns; /* when it failed; 0: it did not */
};

/* When waiting records may be written. */
int64_t group_commit_due_ns(const struct group_commit *commits);

/* Whether a transaction begins now, with so many records in hand. `more_come`: others were given
 * and will be taken without delay. */
bool group_commit_now(const struct group_commit *commits, uint32_t records, bool more_come,
                      int64_t now_ns);

#endif
