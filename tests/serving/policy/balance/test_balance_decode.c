/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/balance/balance_decode.h"

#include "test_case.h"

static const struct decode_costs costs = {.request_ns = 10, .page_ns = 1};
static const struct decode_need need = {.page_count = 10, .pages_expected = 5};

static struct decode_rank rank(uint32_t requests, uint32_t held, uint32_t reserved,
                               uint32_t expected) {
    return (struct decode_rank){requests, 8, 100, held, reserved, expected};
}

/* Requests and pages are weighed by what they cost; promises count as held. */
TEST(the_cheapest_step_takes) {
    const struct decode_rank ranks[3] = {rank(4, 20, 0, 0), rank(1, 45, 0, 0), rank(2, 20, 30, 0)};
    struct decode_choice choice = balance_decode(&costs, &need, ranks, 3); /* 60, 55, 70 */
    assert_int_equal(choice.rank, 1);
    assert_int_equal(choice.reason, DECODE_BOUND);
}

/* A rank that its own growth will fill is passed by; where all will be full, the widest is taken.
 */
TEST(growth_is_foreseen) {
    const struct decode_rank ranks[2] = {rank(1, 50, 0, 40), rank(4, 60, 0, 10)};
    assert_int_equal(balance_decode(&costs, &need, ranks, 2).rank, 1);
    const struct decode_rank tight[2] = {rank(1, 50, 0, 40), rank(4, 60, 0, 29)};
    struct decode_choice choice = balance_decode(&costs, &need, tight, 2);
    assert_int_equal(choice.rank, 1); /* 4 pages short rather than 5 */
    assert_int_equal(choice.reason, DECODE_BOUND_TIGHT);
}

TEST(who_waits_is_reported_why) {
    const struct decode_rank rows[2] = {rank(8, 0, 0, 0), rank(8, 0, 0, 0)};
    const struct decode_rank pages[2] = {rank(8, 0, 0, 0), rank(1, 60, 31, 0)};
    assert_int_equal(balance_decode(&costs, &need, rows, 2).reason, DECODE_WAITS_ROWS);
    assert_int_equal(balance_decode(&costs, &need, pages, 2).reason, DECODE_WAITS_PAGES);
    assert_int_equal(balance_decode(&costs, &need, pages, 2).rank, BALANCE_NO_RANK);
    for (int i = 0; i < DECODE_REASON_COUNT; i++)
        assert_non_null(balance_decode_reason_name(i));
}

TEST(the_cheapest_to_move_leaves) {
    const struct decode_running running[4] = {{9, 1}, {4, 2}, {3, 3}, {4, 4}};
    assert_int_equal(balance_decode_relieve(running, 4, 4), 3);  /* of two equal the later turn */
    assert_int_equal(balance_decode_relieve(running, 4, 1), 2);  /* the smallest does */
    assert_int_equal(balance_decode_relieve(running, 4, 20), 0); /* nobody does: the largest */
    assert_int_equal(balance_decode_relieve(running, 0, 1), BALANCE_NO_RANK);
}
