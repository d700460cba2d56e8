/* SPDX-License-Identifier: Apache-2.0
 * Protects the bound that rules are compared with: without noise to speak of it is what the load
 * wants, noise that nobody knows beforehand costs nodes, a limit of turns costs more, a limit that
 * may be missed more often less; and no rule that was lived is below it.
 */

#include "simulate/scaling/scaled_bound.h"
#include "test_case.h"
#include "two_hours.h"

static double bound_of(double noise, double missed_share, double turns) {
    const double load = 3.9;
    struct scaled_options options = two_hours(&load, noise);
    struct arena arena;
    double nodes;
    void *memory = malloc(scaled_bound_bytes());
    assert_non_null(memory);
    arena_over(&arena, memory, scaled_bound_bytes());
    struct scaled_bound_limits limits = {.missed_share = missed_share, .turns = turns};
    assert_int_equal(scaled_bound(&arena, &options, limits, &nodes), STATUS_OK);
    free(memory);
    return nodes;
}

TEST(without_noise_it_is_what_the_load_wants) {
    double nodes = bound_of(1e-4, 0.001, 0); /* a start's time before noon units are there */
    assert_true(nodes > 12 * 0.98 && nodes < (12 + 8.0 / 24) * 1.01);
}

TEST(noise_costs_nodes_turns_cost_more_and_misses_fewer) {
    double free = bound_of(0.1, 0.01, 0), bound = bound_of(0.1, 0.01, 1);
    print_message("# %g nodes, once turned %g\n", free, bound);
    assert_true(free > bound_of(1e-4, 0.01, 0) * 1.05);
    assert_true(bound > free * 1.001);
    assert_true(bound_of(0.1, 0.1, 0) < free * 0.99);
}

TEST(no_rule_that_was_lived_is_below_it) {
    const double load = 3.9;
    for (double noise = 0.03; noise < 0.1; noise += 0.05) {
        struct scaled_options options = two_hours(&load, noise);
        struct scaled_outcome outcome = two_hours_run(&options);
        double share = (double)outcome.missed_windows / (double)outcome.windows;
        double reversals = (double)outcome.reversals;
        assert_true(outcome.nodes_mean > bound_of(noise, share > 0.01 ? share : 0.01, reversals));
    }
}
