/* SPDX-License-Identifier: Apache-2.0
 * Protects the sum by which commands decide that a model fits: experts are spread with replicas,
 * the other weights are on each rank or once on each host, and the proposed number of hosts is the
 * smallest that holds the unit.
 */
#include "contract/memory_need.h"

#include "test_case.h"

static const struct memory_need v3 = {
    .model = {.common = 20e9, .expert = 44e6, .experts = 256, .moe_layers = 58},
    .ranks = 1,
    .host_ranks = 1,
    .kv = 1e9,
    .step = 0.5e9,
};

TEST(one_rank_has_all_weights) {
    struct memory_sum sum = memory_need_host(&v3);
    assert_true(sum.weights == 20e9 + 256 * 58 * 44e6);
    assert_true(sum.kv == 1e9 && sum.step == 0.5e9);
    assert_true(memory_need_total(&sum) == sum.weights + 1.5e9);
}

TEST(ranks_divide_experts_and_replicas_evenly) {
    assert_int_equal(memory_need_slots(&v3.model, 32, 32), 9);
    assert_int_equal(memory_need_slots(&v3.model, 144, 32), 2);
    assert_int_equal(memory_need_slots(&v3.model, 3, 0), 86); /* the rank that has the most */
    assert_true(memory_need_rank(&v3.model, 9) == 20e9 + 9 * 58 * 44e6);
}

TEST(ranks_of_a_host_may_share_all_but_experts) {
    struct memory_need need = v3;
    need.ranks = 8;
    need.host_ranks = 4;
    need.kv = 8e9;
    struct memory_sum apart = memory_need_host(&need);
    need.shares = true;
    struct memory_sum sum = memory_need_host(&need);
    assert_true(apart.weights - sum.weights == 3 * 20e9);
    assert_true(sum.weights == 20e9 + 4.0 * 32 * 58 * 44e6);
    assert_true(sum.kv == 4e9 && sum.step == 2e9);
}

TEST(a_dense_model_has_no_slots) {
    struct memory_need need = {
        .model = {.common = 3e9}, .ranks = 2, .host_ranks = 2, .shares = true};
    assert_int_equal(memory_need_slots(&need.model, 2, 4), 0);
    assert_true(memory_need_host(&need).weights == 3e9);
    assert_int_equal(memory_need_hosts(&need, 2e9), 0); /* no number of ranks divides it */
}

TEST(the_number_of_hosts_is_the_smallest_that_fits) {
    uint32_t hosts = memory_need_hosts(&v3, 64e9);
    struct memory_need need = v3;
    need.ranks = hosts;
    struct memory_sum sum = memory_need_host(&need);
    assert_true(memory_need_total(&sum) <= 64e9);
    need.ranks = hosts - 1;
    sum = memory_need_host(&need);
    assert_true(memory_need_total(&sum) > 64e9);
    assert_int_equal(memory_need_hosts(&v3, 1e12), 1);
    assert_int_equal(memory_need_hosts(&v3, 20e9), 0);
}
