/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/balance/balance.h"

#include "test_case.h"

static const struct balance_rank ranks[] = {
    {5, 900, true}, {2, 100, false}, {3, 800, true}, {3, 700, true}};

TEST(each_method_looks_at_its_own) {
    assert_int_equal(balance_choose_simple(BALANCE_LEAST_REQUESTS, ranks, 4, 0), 2);
    assert_int_equal(balance_choose_simple(BALANCE_LEAST_TOKENS, ranks, 4, 0), 3);
    assert_int_equal(balance_choose_simple(BALANCE_ROUND_ROBIN, ranks, 4, 4), 0);
    assert_int_equal(balance_choose_simple(BALANCE_ROUND_ROBIN, ranks, 4, 5),
                     2); /* 1 takes nobody */
}

/* Never a full rank, the same for the same draw, and never the worst of all: that is only drawn
 * against itself. */
TEST(two_draws_choose_the_better) {
    uint32_t chosen[4] = {0};
    for (uint64_t draw = 0; draw < 4000; draw++) {
        uint32_t rank = balance_choose_simple(BALANCE_POWER_OF_TWO, ranks, 4, draw);
        assert_int_equal(rank, balance_choose_simple(BALANCE_POWER_OF_TWO, ranks, 4, draw));
        assert_true(ranks[rank].accepts);
        chosen[rank]++;
    }
    assert_in_range(chosen[0], 100, 500); /* drawn twice: 1 in 16 */
    assert_true(chosen[2] > 1000 && chosen[3] > 1000);
}

TEST(no_rank_is_chosen_where_none_takes) {
    const struct balance_rank full[2] = {{0, 0, false}, {0, 0, false}};
    for (int method = BALANCE_ROUND_ROBIN; method < BALANCE_METHOD_COUNT; method++)
        assert_int_equal(balance_choose_simple(method, full, 2, 7), BALANCE_NO_RANK);
    for (int method = 0; method < BALANCE_METHOD_COUNT; method++)
        assert_non_null(balance_method_name(method));
}
