/* SPDX-License-Identifier: Apache-2.0
 * Protects the placement of ranks: hosts are filled in their order, no slot is used twice, a unit
 * that does not fit takes nothing, and NUMA nodes of a host get equal shares.
 */

#include "serving/policy/place_ranks.h"
#include "test_case.h"

static void assert_part(struct place_part part, uint32_t host, uint32_t first, uint32_t count) {
    assert_int_equal(part.host, host);
    assert_int_equal(part.first, first);
    assert_int_equal(part.count, count);
}

TEST(hosts_are_filled_in_their_order) {
    uint32_t slots[] = {8, 8, 4};
    struct place_part parts[3];
    assert_int_equal(place_ranks(slots, 3, 12, parts), 2);
    assert_part(parts[0], 0, 0, 8);
    assert_part(parts[1], 1, 8, 4);
    assert_int_equal(place_ranks(slots, 3, 6, parts), 2); /* the next unit */
    assert_part(parts[0], 1, 0, 4);
    assert_part(parts[1], 2, 4, 2);
    assert_int_equal(slots[2], 2);
}

TEST(a_host_without_slots_is_passed_over) {
    uint32_t slots[] = {0, 1, 0, 1};
    struct place_part parts[4];
    assert_int_equal(place_ranks(slots, 4, 2, parts), 2);
    assert_part(parts[0], 1, 0, 1);
    assert_part(parts[1], 3, 1, 1);
}

TEST(a_unit_that_does_not_fit_takes_nothing) {
    uint32_t slots[] = {2, 3};
    struct place_part parts[2];
    assert_int_equal(place_ranks(slots, 2, 6, parts), 0);
    assert_int_equal(slots[0], 2);
    assert_int_equal(slots[1], 3);
    uint32_t many[] = {UINT32_MAX, UINT32_MAX}; /* their sum is beyond 32 bits */
    assert_int_equal(place_ranks(many, 2, 1, parts), 1);
}

TEST(nodes_get_equal_shares) {
    for (uint32_t nodes = 2; nodes <= 8; nodes++)
        for (uint32_t count = nodes; count <= 24; count++) {
            uint32_t ranks[8] = {0}, before = 0;
            for (uint32_t i = 0; i < count; i++) {
                uint32_t node = place_ranks_node(i, count, nodes);
                assert_in_range(node, before, nodes - 1);
                before = node;
                ranks[node]++;
            }
            for (uint32_t node = 0; node < nodes; node++)
                assert_in_range(ranks[node], count / nodes, count / nodes + 1);
        }
}

TEST(no_rank_is_bound_where_cpus_would_lie_idle) {
    assert_int_equal(place_ranks_node(0, 1, 2), PLACE_NO_NODE);
    assert_int_equal(place_ranks_node(2, 3, 4), PLACE_NO_NODE);
    assert_int_equal(place_ranks_node(3, 8, 1), PLACE_NO_NODE);
    assert_int_equal(place_ranks_node(3, 8, 0), PLACE_NO_NODE);
}
