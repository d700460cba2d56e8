/* SPDX-License-Identifier: Apache-2.0
 * Protects broadcast, scatter and gather along the tree: in a tree of any size each rank occurs
 * once, at a small depth; a part for all reaches all ranks, a part for one reaches that one;
 * reports arrive in the order of ranks; and if a rank dies that should have forwarded a message, no
 * rank below or above it waits for ever.
 */
#define TEST_OWN_MAIN
#include "test_case.h"

#include <signal.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/random.h"
#include "compute/exchange/job_tree.h"
#include "on_ranks.h"

#define ROUNDS 20u
#define LARGE 20000u
#define DIES_BEFORE_TAKING 3u /* both have others below them, among twenty */
#define DIES_BEFORE_REPORTING 10u
#define LAST UINT32_MAX

static struct job_tree_parts orders, reports;

static uint32_t depth_of(uint32_t position, uint32_t count) {
    uint32_t depth = 0;
    for (; position; depth++) {
        struct job_tree_position own = job_tree_position(position, count);
        struct job_tree_position above = job_tree_position(own.parent, count);
        uint32_t child = 0;
        while (child < above.child_count && above.first[child] != position)
            child++;
        assert_true(child < above.child_count);
        if (own.child_count) {
            assert_int_equal(own.first[0], position + 1);
            assert_int_equal(own.first[own.child_count], above.first[child + 1]);
        } else {
            assert_int_equal(above.first[child + 1], position + 1);
        }
        assert_true(own.parent < position);
        position = own.parent;
    }
    return depth;
}

TEST(each_rank_stands_once_in_a_tree_of_any_size) {
    for (uint32_t count = 1; count <= LIMIT_RANKS; count += 1 + count / 40) {
        uint32_t children = 0, deepest = 0, room = 1, reached = 1;
        for (uint32_t position = 0; position < count; position++) {
            struct job_tree_position place = job_tree_position(position, count);
            uint32_t depth = depth_of(position, count);
            assert_true(place.child_count <= JOB_TREE_FAN);
            children += place.child_count;
            if (depth > deepest) deepest = depth;
        }
        assert_int_equal(children, count - 1);
        for (uint32_t depth = 0; depth < deepest; depth++) {
            assert_true(reached < count); /* a tree of less depth would not hold all */
            room *= JOB_TREE_FAN;
            reached += room;
        }
    }
    assert_int_equal(depth_of(143, 144), 3);
}

static void take(struct bytes *part_out) {
    size_t bytes;
    assert_true(job_wait_message(job_tree_parent(), &bytes));
    assert_true(job_tree_receive(&orders, bytes, part_out));
}

TEST(what_is_for_all_comes_to_all) {
    struct bytes part;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        size_t bytes = 4 + round * round * 97;
        if (job_rank() == 0) {
            job_tree_clear(&orders);
            memset(job_tree_add(&orders, JOB_TREE_ALL, bytes), (int)round, bytes);
            job_tree_send(&orders);
            continue;
        }
        take(&part);
        assert_int_equal(part.count, bytes);
        assert_int_equal(part.data[0], round);
        assert_int_equal(part.data[bytes - 1], round);
    }
}

static uint32_t bytes_of_part(uint32_t round, uint32_t rank, uint32_t way) {
    return (uint32_t)(random_uniform(way, round, rank) * LARGE);
}

static void fill(uint32_t rank, uint32_t bytes, uint32_t mark) {
    struct job_tree_parts *parts = job_rank() ? &reports : &orders;
    memset(job_tree_add(parts, rank, bytes), (int)(mark % 127), bytes);
}

static void assert_filled(struct bytes part, uint32_t bytes, uint32_t mark) {
    assert_int_equal(part.count, bytes);
    for (uint32_t i = 0; i < bytes; i++)
        assert_int_equal(part.data[i], mark % 127);
}

TEST(each_gets_its_own_and_reports_come_in_order) {
    struct bytes part;
    uint32_t rank, expected = 1;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        job_tree_clear(&orders);
        job_tree_clear(&reports);
        for (rank = 1; rank < job_count() && job_rank() == 0; rank++)
            fill(rank, bytes_of_part(round, rank, 1), round + rank);
        if (job_rank()) {
            take(&part);
            assert_filled(part, bytes_of_part(round, job_rank(), 1), round + job_rank());
            fill(job_rank(), bytes_of_part(round, job_rank(), 2), round + 2 * job_rank());
        } else {
            job_tree_send(&orders);
        }
        assert_true(job_tree_gather(&reports));
        if (job_rank()) continue;
        size_t at = 0;
        for (expected = 1; job_tree_next(&reports, &at, &rank, &part); expected++) {
            assert_int_equal(rank, expected);
            assert_filled(part, bytes_of_part(round, rank, 2), round + 2 * rank);
        }
        assert_int_equal(expected, job_count());
    }
}

/* Once, of the living, in order; false: a rank has died, and nothing is known. */
static bool order_and_receive(uint32_t round) {
    struct bytes part;
    uint32_t rank, reported, expected = 0;
    size_t at = 0;
    job_tree_clear(&orders);
    job_tree_clear(&reports);
    memcpy(job_tree_add(&orders, JOB_TREE_ALL, sizeof round), &round, sizeof round);
    job_tree_send(&orders);
    if (round == LAST || !job_tree_gather(&reports)) return round == LAST;
    while (job_tree_next(&reports, &at, &rank, &part)) {
        do
            expected++;
        while (!job_is_alive(expected));
        memcpy(&reported, part.data, sizeof reported);
        check(rank == expected && reported == round);
    }
    return true;
}

static void work_until_the_last(void) {
    struct bytes part;
    size_t bytes;
    uint32_t round, taken = 0;
    for (;;) {
        bool there = job_wait_message(job_tree_parent(), &bytes);
        if (taken == 5 && job_rank() == DIES_BEFORE_TAKING) raise(SIGKILL);
        if (!there || !job_tree_receive(&orders, bytes, &part)) {
            job_regroup();
            continue;
        }
        taken++;
        memcpy(&round, part.data, sizeof round);
        if (round == LAST) return;
        if (round == 12 && job_rank() == DIES_BEFORE_REPORTING) raise(SIGKILL);
        job_tree_clear(&reports);
        memcpy(job_tree_add(&reports, job_rank(), sizeof round), &round, sizeof round);
        job_tree_gather(&reports);
    }
}

static int end(void **state) {
    job_tree_free(&orders);
    job_tree_free(&reports);
    return 0;
}

TEST_AROUND(one_that_dies_on_the_way_leaves_nobody_waiting, NULL, end) {
    uint32_t again = 0;
    if (job_count() <= DIES_BEFORE_REPORTING) return;
    if (job_rank()) {
        work_until_the_last();
        return;
    }
    for (uint32_t round = 0; round < ROUNDS; round++)
        while (!order_and_receive(round)) {
            job_regroup();
            again++;
        }
    order_and_receive(LAST);
    assert_true(again >= 1);
    assert_false(job_is_alive(DIES_BEFORE_TAKING));
    assert_false(job_is_alive(DIES_BEFORE_REPORTING));
}

int main(int argc, char **argv) {
    on_ranks_deaths = 2;
    return on_ranks(argv, "job_tree", test_cases, test_case_count);
}
