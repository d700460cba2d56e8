/* SPDX-License-Identifier: Apache-2.0
 * When the ledger's thread begins its next transaction. A transaction costs the same for one entry
 * as for twenty (a begin, a flush of the disk, pages that all of them share), so transactions begin
 * some milliseconds apart and take along all that came meanwhile. The first entry for a while does
 * not wait. After a failure (a full disk) the next try comes a second later.
 *
 * The distance is what an answer's last bytes may wait at most for company: half of it on average.
 * docs/performance/serving.md has what it saves.
 *
 * Pure: times in, a time out. Times are nanoseconds of any clock that does not go back.
 */
#ifndef SERVING_POLICY_GROUP_COMMIT_H
#define SERVING_POLICY_GROUP_COMMIT_H

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

/* When records that wait may be written. */
int64_t group_commit_due_ns(const struct group_commit *commits);

/* Whether a transaction begins now, with so many records at hand; `more_come`: others have been
 * given and not been taken yet, in no time. */
bool group_commit_now(const struct group_commit *commits, uint32_t records, bool more_come,
                      int64_t now_ns);

#endif
