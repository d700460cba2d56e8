/* SPDX-License-Identifier: Apache-2.0
 * Protects the rules of a fleet that follows its load: the clairvoyant one misses nothing with the
 * fewest nodes, the static one has the nodes of the highest load all the time, the manager grows
 * with the load and is never below the clairvoyant one. Faults are in
 * tests/simulate/world/test_fleet_managers.c.
 */

#include "base/check.h"
#include "test_case.h"
#include "two_hours.h"

static const double load = 3.9;

static struct scaled_outcome live(enum scaled_rule rule, double noise) {
    struct scaled_options options = two_hours(&load, noise);
    options.rule = rule;
    return two_hours_run(&options);
}

TEST(the_clairvoyant_misses_nothing_with_the_fewest_nodes) {
    struct scaled_outcome outcome = live(SCALED_CLAIRVOYANT, 0);
    assert_int_equal(outcome.windows, 360);
    assert_int_equal(outcome.missed_windows, 0);
    assert_true(outcome.nodes_mean > 12 - 1e-9 && outcome.nodes_mean < 12 + 1e-9);
    assert_int_equal(outcome.nodes_max, 16);
}

TEST(the_static_rule_keeps_the_nodes_of_the_highest_load) {
    struct scaled_outcome outcome = live(SCALED_STATIC, 0);
    assert_true(outcome.nodes_mean > 16 - 1e-9 && outcome.nodes_mean < 16 + 1e-9);
    assert_int_equal(outcome.missed_windows, 0);
    assert_int_equal(outcome.reversals, 0);
}

TEST(other_rules_grow_with_the_load_and_are_above_the_clairvoyant) {
    static const enum scaled_rule rules[] = {SCALED_MANAGER, SCALED_REACTIVE, SCALED_DYNAMO};
    double least = live(SCALED_CLAIRVOYANT, 0).nodes_mean;
    for (size_t i = 0; i < ARRAY_COUNT(rules); i++) {
        struct scaled_outcome outcome = live(rules[i], 0);
        print_message("# %s: %g nodes\n", scaled_world_rule_name(rules[i]), outcome.nodes_mean);
        assert_true(outcome.nodes_mean > least && outcome.starts > 0);
        assert_true(outcome.nodes_max >= 16);
    }
}

TEST(the_same_seed_gives_the_same_noise) {
    struct scaled_outcome one = live(SCALED_MANAGER, 0.1), other = live(SCALED_MANAGER, 0.1);
    assert_memory_equal(&one, &other, sizeof one);
    assert_true(live(SCALED_MANAGER, 0.05).nodes_mean != one.nodes_mean);
}
