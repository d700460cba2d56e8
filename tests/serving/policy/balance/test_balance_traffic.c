/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/balance/balance_traffic.h"

#include <math.h>

#include "test_case.h"

static const struct balance_shape shape = {8, 4, 8, 4, 2}; /* groups of 2 experts, 4 slots a node */
static const uint64_t loads[8] = {1, 1, 1, 1, 1, 1, 1, 1};

static void assert_traffic(const uint16_t *slots, uint32_t groups, uint32_t experts, double copies,
                           double away) {
    struct balance_choice choice = {groups, experts};
    struct balance_traffic traffic;
    balance_traffic(&shape, &choice, loads, slots, &traffic);
    if (fabs(traffic.copies - copies) > 1e-12 || fabs(traffic.away - away) > 1e-12)
        fail_msg("copies %.12g away %.12g", traffic.copies, traffic.away);
}

/* Two of four groups: the 6 pairs are alike; 2 of them lie on one node, 4 touch both. */
TEST(whole_groups_cost_what_their_nodes_cost) {
    const uint16_t slots[] = {0, 1, 2, 3, 4, 5, 6, 7};
    assert_traffic(slots, 1, 2, 1, 0);
    assert_traffic(slots, 2, 4, (2 * 1 + 4 * 2) / 6.0, 0);
    assert_traffic(slots, 4, 8, 2, 0);
}

/* One group, two draws of its two experts, one expert on each node: half the tokens touch both. */
TEST(a_torn_group_costs_more) {
    const uint16_t slots[] = {0, 2, 4, 6, 1, 3, 5, 7};
    assert_traffic(slots, 1, 1, 1, 0.5);
    assert_traffic(slots, 1, 2, 1.5, 0.5);
}

TEST(no_load_is_no_traffic) {
    const uint16_t slots[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const uint64_t none[8] = {0};
    struct balance_choice choice = {2, 4};
    struct balance_traffic traffic;
    balance_traffic(&shape, &choice, none, slots, &traffic);
    assert_true(traffic.copies == 0 && traffic.away == 0);
}
