/* SPDX-License-Identifier: Apache-2.0
 * Protects how many units a fleet has: it grows at once for the load, the forecast and missed
 * limits, looks at N - 1 before it gives a unit back, rests after it grew, keeps promises and pins,
 * and says why.
 */

#include "serving/policy/scale_fleet.h"
#include "test_case.h"

static struct scale_rule rule;
static struct scale_view view;
static struct scale_state state;

static int open_fleet(void **ignored) {
    (void)ignored;
    struct scale_rule_side side = {
        .unit_rate = 100, .unit_nodes = 1, .least = 1, .most = 20, .group = 1};
    rule = (struct scale_rule){
        .sides = {side, side}, .reserve = 0.1, .give_back = 0.1, .rest_ns = 100, .start_ns = 20};
    view =
        (struct scale_view){.units = {5, 5}, .pinned = {SCALE_FREE, SCALE_FREE}, .nodes_max = 99};
    for (int i = 0; i < SCALE_SIDES; i++)
        view.demand[i] = (struct scale_demand){420, 420, 420};
    state = (struct scale_state){0};
    return 0;
}

static void assert_choice(int64_t now_ns, uint32_t wanted, enum scale_reason reason) {
    struct scale_choice choice = scale_fleet(&state, &rule, &view, now_ns);
    assert_string_equal(scale_fleet_reason_name(choice.reason[SCALE_DECODE]),
                        scale_fleet_reason_name(reason));
    assert_int_equal(choice.wanted[SCALE_DECODE], wanted);
    assert_int_equal(choice.wanted[SCALE_PREFILL], 5); /* the other side is left alone */
}

TEST_AROUND(it_grows_for_the_load_and_for_the_forecast, open_fleet, NULL) {
    assert_choice(0, 5, SCALE_ENOUGH);
    view.demand[SCALE_DECODE].now = 700;
    assert_choice(0, 8, SCALE_LOAD);
    view.demand[SCALE_DECODE].now = 420;
    view.demand[SCALE_DECODE].soon = 540;
    assert_choice(0, 6, SCALE_FORECAST);
    view.demand[SCALE_DECODE].soon = 9999;
    assert_choice(0, 20, SCALE_FORECAST); /* as many as there may be */
    view.units[SCALE_DECODE] = 0;
    view.demand[SCALE_DECODE] = (struct scale_demand){0};
    assert_choice(0, 1, SCALE_LEAST);
}

/* 4 units would bear 360 with the reserve, and are asked whether they bear it with twice that. */
TEST_AROUND(it_looks_at_one_fewer_before_it_gives_one_back, open_fleet, NULL) {
    view.demand[SCALE_DECODE] = (struct scale_demand){350, 350, 350};
    assert_choice(0, 5, SCALE_NEAR);
    view.demand[SCALE_DECODE] = (struct scale_demand){320, 320, 320};
    assert_choice(0, 4, SCALE_SPARE);
    view.demand[SCALE_DECODE].later = 440;
    assert_choice(0, 5, SCALE_RETURNS);
    view.demand[SCALE_DECODE] = (struct scale_demand){0};
    assert_choice(0, 1, SCALE_SPARE);
}

TEST_AROUND(it_rests_after_it_grew, open_fleet, NULL) {
    view.demand[SCALE_DECODE].now = 500;
    assert_choice(1000, 6, SCALE_LOAD);
    view.units[SCALE_DECODE] = 6;
    view.demand[SCALE_DECODE] = (struct scale_demand){100, 100, 100};
    assert_choice(1099, 6, SCALE_RESTS);
    assert_choice(1100, 2, SCALE_SPARE);
}

/* Whoever gave a unit back a moment before it was wanted again rests for twice as long. */
TEST_AROUND(it_rests_twice_as_long_where_it_had_given_back_too_soon, open_fleet, NULL) {
    view.demand[SCALE_DECODE] = (struct scale_demand){320, 320, 320};
    assert_choice(1000, 4, SCALE_SPARE);
    view.units[SCALE_DECODE] = 4;
    view.demand[SCALE_DECODE].now = 420;
    assert_choice(1099, 5, SCALE_LOAD);
    view.units[SCALE_DECODE] = 5;
    view.demand[SCALE_DECODE].now = 320;
    assert_choice(1298, 5, SCALE_RESTS);
    assert_choice(1299, 4, SCALE_SPARE);
    view.units[SCALE_DECODE] = 4;
    view.demand[SCALE_DECODE].now = 420;
    assert_choice(1399, 5, SCALE_LOAD); /* it had been away for as long as a rest */
    view.units[SCALE_DECODE] = 5;
    view.demand[SCALE_DECODE].now = 320;
    assert_choice(1498, 5, SCALE_RESTS);
    assert_choice(1499, 4, SCALE_SPARE);
}

TEST_AROUND(a_missed_limit_is_worth_one_more_in_the_time_of_a_start, open_fleet, NULL) {
    view.missed[SCALE_DECODE] = true;
    assert_choice(1000, 6, SCALE_LIMIT);
    view.units[SCALE_DECODE] = 6;
    assert_choice(1019, 6, SCALE_ENOUGH); /* it is on its way, and none goes */
    assert_choice(1020, 7, SCALE_LIMIT);
}

TEST_AROUND(promised_nodes_are_given_by_the_side_that_can_spare_them, open_fleet, NULL) {
    view.demand[SCALE_DECODE] = (struct scale_demand){300, 300, 440};
    view.nodes_max = 9;
    assert_choice(0, 4, SCALE_PROMISED);
    view.nodes_max = 0; /* never below the least */
    struct scale_choice choice = scale_fleet(&state, &rule, &view, 0);
    assert_int_equal(choice.wanted[SCALE_DECODE], 1);
    assert_int_equal(choice.wanted[SCALE_PREFILL], 1);
}

/* Noise would move units to and fro otherwise. */
TEST_AROUND(where_nodes_are_short_what_runs_stays, open_fleet, NULL) {
    view.nodes_max = 10;
    for (int i = 0; i < 20; i++) {
        view.demand[SCALE_PREFILL].now = i % 2 ? 600 : 900;
        view.demand[SCALE_DECODE].now = i % 2 ? 900 : 600;
        assert_choice(i, 5, SCALE_PROMISED);
    }
}

/* Though it grew a moment ago. */
TEST_AROUND(where_nodes_are_short_what_is_not_needed_goes, open_fleet, NULL) {
    view.nodes_max = 10;
    view.demand[SCALE_PREFILL] = (struct scale_demand){170, 170, 170};
    view.demand[SCALE_DECODE].now = 790;
    state.has_grown[SCALE_PREFILL] = true;
    struct scale_choice choice = scale_fleet(&state, &rule, &view, 10);
    assert_int_equal(choice.wanted[SCALE_PREFILL], 2);
    assert_int_equal(choice.wanted[SCALE_DECODE], 8);
    assert_int_equal(choice.reason[SCALE_DECODE], SCALE_PROMISED);
}

TEST_AROUND(an_operator_may_say_how_many, open_fleet, NULL) {
    view.pinned[SCALE_DECODE] = 2;
    view.missed[SCALE_DECODE] = true;
    assert_choice(0, 2, SCALE_PINNED);
}

TEST_AROUND(units_come_in_groups_beside_those_that_always_stand, open_fleet, NULL) {
    rule.sides[SCALE_DECODE].group = 3;
    rule.sides[SCALE_DECODE].extra = 2;
    assert_int_equal(scale_fleet_units(&rule.sides[SCALE_DECODE], 0, 0.1), 2);
    assert_int_equal(scale_fleet_units(&rule.sides[SCALE_DECODE], 1, 0.1), 5);
    assert_int_equal(scale_fleet_units(&rule.sides[SCALE_DECODE], 270, 0.1), 5);
    assert_int_equal(scale_fleet_units(&rule.sides[SCALE_DECODE], 271, 0.1), 8);
    rule.sides[SCALE_DECODE].unit_nodes = 4;
    assert_int_equal(scale_fleet_nodes(&rule, (uint32_t[]){3, 5}), 23);
}
