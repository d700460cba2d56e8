/* SPDX-License-Identifier: Apache-2.0 */
#include "host/ledger/group_commit.h"

int64_t group_commit_due_ns(const struct group_commit *commits) {
    if (commits->failed_ns) return commits->failed_ns + GROUP_COMMIT_AGAIN_NS;
    return commits->begun_ns ? commits->begun_ns + GROUP_COMMIT_APART_NS : 0;
}

bool group_commit_now(const struct group_commit *commits, uint32_t records, bool more_come,
                      int64_t now_ns) {
    if (records == 0 || now_ns < group_commit_due_ns(commits)) return false;
    return !more_come || records >= GROUP_COMMIT_MAX;
}
