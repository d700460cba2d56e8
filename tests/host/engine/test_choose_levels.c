/* SPDX-License-Identifier: Apache-2.0
 * Protects when rows go by nodes: as told, by size if not told, and never where there is one node
 * or each rank is one.
 */
#include "host/engine/choose_levels.h"

#include "test_case.h"

TEST(rows_go_by_nodes_as_reported_or_by_size) {
    struct choose_levels_step step = {
        .ranks = 8, .ranks_per_node = 4, .tokens = 16, .sums_groups = true};
    enum level_choice choice = LEVELS_TWO;
    assert_true(choose_levels_named("one", &choice) && choice == LEVELS_ONE);
    assert_true(choose_levels_named("two", &choice) && choice == LEVELS_TWO);
    assert_true(choose_levels_named("auto", &choice) && choice == LEVELS_AUTO);
    assert_false(choose_levels_named("three", &choice));
    assert_false(choose_levels(LEVELS_AUTO, &step));
    assert_true(choose_levels(LEVELS_TWO, &step));
    step.tokens = 32768;
    assert_true(choose_levels(LEVELS_AUTO, &step));
    assert_false(choose_levels(LEVELS_ONE, &step));
    step.sums_groups = false;
    assert_false(choose_levels(LEVELS_AUTO, &step));
    assert_true(choose_levels(LEVELS_TWO, &step));
    step.ranks_per_node = 8;
    assert_false(choose_levels(LEVELS_TWO, &step));
    step.ranks_per_node = 1;
    assert_false(choose_levels(LEVELS_AUTO, &step));
}
