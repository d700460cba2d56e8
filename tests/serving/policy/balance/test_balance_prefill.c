/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/balance/balance_prefill.h"

#include "base/limits.h"
#include "test_case.h"

static const struct prefill_costs costs = {.token = 100, .attended = 1, .read = 400};

static struct prefill_choice choose(bool patient, const struct prefill_rank ranks[3],
                                    const struct prefill_hit hits[3]) {
    struct prefill_need need = {.prompt_tokens = 1000, .page_count = 16, .patient = patient};
    return balance_prefill(&costs, &need, ranks, hits, 3);
}

TEST(costs_count_attention) {
    assert_float_equal(balance_prefill_costs_of(&costs, 0, 500), 0, 0);
    assert_float_equal(balance_prefill_costs_of(&costs, 10, 0), 1000 + 55, 1e-9);
    assert_float_equal(balance_prefill_costs_of(&costs, 10, 100), 1000 + 1055 + 40000, 1e-9);
    assert_int_equal(balance_prefill_costs_chunk_min(&costs), 832); /* the first block beyond 800 */
}

/* Equal work: the rank with least of it; a rank that takes nobody now is not bound, however idle.
 */
TEST(the_least_loaded_takes) {
    const struct prefill_hit none[3] = {{0, 0}, {0, 0}, {0, 0}};
    const struct prefill_rank ranks[3] = {{true, 99, 5e6}, {true, 99, 4e6}, {true, 99, 6e6}};
    struct prefill_choice choice = choose(true, ranks, none);
    assert_int_equal(choice.rank, 1);
    assert_int_equal(choice.reason, PREFILL_BOUND);
    assert_float_equal(choice.done_cost, 4e6 + balance_prefill_costs_of(&costs, 1000, 0), 1);
    const struct prefill_rank busy[3] = {{true, 99, 5e6}, {false, 99, 4e6}, {true, 99, 6e6}};
    assert_int_equal(choose(false, busy, none).rank, 0);
}

/* A cache that saves more than the difference of loads decides, less what fetching takes. */
TEST(a_hit_is_weighed_against_load) {
    const struct prefill_rank ranks[3] = {{true, 99, 0}, {true, 99, 1e5}, {true, 99, 9e9}};
    struct prefill_hit hits[3] = {{0, 0}, {960, 0}, {960, 0}};
    struct prefill_choice choice = choose(true, ranks, hits);
    assert_int_equal(choice.rank, 1);
    assert_int_equal(choice.reason, PREFILL_BOUND_TO_HIT);
    hits[1].fetch_cost = 1e6;
    assert_int_equal(choose(true, ranks, hits).rank, 0);
}

/* It waits for a busy rank only where that is sooner, and only while it is patient. */
TEST(a_prompt_waits_only_while_it_is_patient) {
    const struct prefill_rank ranks[3] = {{true, 99, 5e5}, {false, 99, 4e4}, {true, 99, 5e5}};
    const struct prefill_hit hits[3] = {{0, 0}, {960, 0}, {0, 0}};
    struct prefill_choice choice = choose(true, ranks, hits);
    assert_int_equal(choice.rank, BALANCE_NO_RANK);
    assert_int_equal(choice.reason, PREFILL_WAITS_FOR_HIT);
    assert_int_equal(choose(false, ranks, hits).rank, 0);
}

TEST(who_waits_is_reported_why) {
    const struct prefill_hit none[3] = {{0, 0}, {0, 0}, {0, 0}};
    const struct prefill_rank full[3] = {{false, 99, 0}, {false, 99, 0}, {false, 99, 0}};
    const struct prefill_rank paged[3] = {{true, 15, 0}, {true, 3, 0}, {false, 99, 0}};
    assert_int_equal(choose(false, full, none).reason, PREFILL_WAITS_ROOM);
    assert_int_equal(choose(false, paged, none).reason, PREFILL_WAITS_PAGES);
    for (int i = 0; i < PREFILL_REASON_COUNT; i++)
        assert_non_null(balance_prefill_reason_name(i));
}

TEST(the_level_is_the_mean_of_those_that_work) {
    const double full_ns[4] = {300, 0, 900, 600};
    assert_float_equal(balance_prefill_level(full_ns, 4, 0), 600, 1e-9);
    assert_float_equal(balance_prefill_level(full_ns, 4, 800), 800, 1e-9);
    const double idle_ns[2] = {0, 0};
    assert_float_equal(balance_prefill_level(idle_ns, 2, 5), 5, 1e-9);
}
