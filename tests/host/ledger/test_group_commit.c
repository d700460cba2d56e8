/* SPDX-License-Identifier: Apache-2.0
 * Protects the ledger's thread from a transaction for each entry when many come, a lone answer from
 * waiting, and a full disk from being tried all the time.
 */
#include "host/ledger/group_commit.h"

#include "test_case.h"

#define MS ((int64_t)1000000)

TEST(the_first_entry_for_a_while_does_not_wait) {
    struct group_commit commits = {0};
    assert_true(group_commit_now(&commits, 1, false, 5 * MS));
    commits.begun_ns = 5 * MS;
    assert_true(group_commit_now(&commits, 1, false, 500 * MS));
    assert_false(group_commit_now(&commits, 0, false, 500 * MS)); /* there is nothing to write */
}

/* Entries come every 0.2 ms, and each transaction takes 1 ms. */
TEST(many_entries_share_a_transaction_and_wait_for_a_bounded_time) {
    struct group_commit commits = {0};
    uint32_t waiting = 0, transactions = 0, entries = 0;
    int64_t first_ns = 0, longest_ns = 0, busy_until_ns = 0;
    for (int64_t now_ns = MS; now_ns <= 1001 * MS; now_ns += MS / 5) {
        if (waiting++ == 0) first_ns = now_ns;
        entries++;
        if (now_ns < busy_until_ns || !group_commit_now(&commits, waiting, false, now_ns)) continue;
        commits.begun_ns = now_ns;
        busy_until_ns = now_ns + MS;
        if (now_ns - first_ns > longest_ns) longest_ns = now_ns - first_ns;
        waiting = 0;
        transactions++;
    }
    assert_in_range(transactions, 100, 1000 * MS / GROUP_COMMIT_APART_NS + 1);
    assert_true(entries / transactions >= 39);
    assert_true(longest_ns <= GROUP_COMMIT_APART_NS);
}

TEST(a_transaction_takes_along_what_has_been_given_up_to_its_room) {
    struct group_commit commits = {0};
    assert_false(group_commit_now(&commits, GROUP_COMMIT_MAX - 1, true, 5 * MS));
    assert_true(group_commit_now(&commits, GROUP_COMMIT_MAX, true, 5 * MS));
}

TEST(a_failure_is_tried_again_a_second_later) {
    struct group_commit commits = {.begun_ns = 100 * MS, .failed_ns = 120 * MS};
    assert_true(group_commit_due_ns(&commits) == 1120 * MS);
    assert_false(group_commit_now(&commits, 9, false, 1119 * MS));
    assert_true(group_commit_now(&commits, 9, false, 1120 * MS));
    commits = (struct group_commit){.begun_ns = 1120 * MS};
    assert_true(group_commit_due_ns(&commits) == 1120 * MS + GROUP_COMMIT_APART_NS);
}
