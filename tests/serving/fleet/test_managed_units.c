/* SPDX-License-Identifier: Apache-2.0
 * Protects the states of a fleet's units: what is seen moves them, who is gone is forgotten and
 * says how, strangers are taken over as they are, and numbers are given once.
 */

#include "contract/record_unit.h"
#include "serving/fleet/managed_units.h"
#include "test_case.h"

static struct managed_units units;

static int open_units(void **state) {
    (void)state;
    units = (struct managed_units){.last_number = 0};
    return 0;
}

static enum managed_end see(uint32_t number, enum fleet_unit_state state) {
    const struct record_fleet_unit seen = {
        .number = number, .role = UNIT_DECODE, .observed_state = state, .requests = 3};
    return managed_units_see(&units, &seen, 1);
}

static uint32_t state_of(uint32_t number) {
    uint32_t index = managed_units_find(&units, number);
    return index == MANAGED_NOBODY ? MANAGED_NONE : units.units[index].state;
}

TEST_AROUND(a_unit_goes_from_its_order_to_its_end, open_units, NULL) {
    uint32_t index = managed_units_order(&units, UNIT_DECODE, 0);
    assert_int_equal(units.units[index].number, 1);
    assert_int_equal(see(1, FLEET_UNIT_QUEUED), MANAGED_GOES_ON);
    assert_int_equal(see(1, FLEET_UNIT_STARTING), MANAGED_GOES_ON);
    assert_int_equal(state_of(1), MANAGED_ORDERED);
    assert_int_equal(see(1, FLEET_UNIT_SERVING), MANAGED_BEGINS);
    assert_int_equal(managed_units_count(&units, UNIT_DECODE), 1);
    managed_units_drain(&units, index, 2);
    assert_int_equal(managed_units_count(&units, UNIT_DECODE), 0);
    assert_int_equal(see(1, FLEET_UNIT_SERVING), MANAGED_GOES_ON); /* it does not show yet */
    assert_int_equal(state_of(1), MANAGED_DRAINING);
    managed_units_call_back(&units, index, 3);
    assert_int_equal(state_of(1), MANAGED_SERVING);
    managed_units_drain(&units, index, 4);
    managed_units_end(&units, index, 5);
    assert_int_equal(see(1, FLEET_UNIT_GONE), MANAGED_ENDS);
    assert_int_equal(state_of(1), MANAGED_NONE);
    index = managed_units_order(&units, UNIT_DECODE, 6);
    assert_int_equal(units.units[index].number, 2); /* never the same again */
}

TEST_AROUND(who_is_gone_says_how, open_units, NULL) {
    managed_units_order(&units, UNIT_DECODE, 0);
    assert_int_equal(see(1, FLEET_UNIT_LAUNCH_FAILED), MANAGED_FAILS);
    managed_units_order(&units, UNIT_DECODE, 0);
    assert_int_equal(see(2, FLEET_UNIT_GONE), MANAGED_FAILS);
    managed_units_order(&units, UNIT_DECODE, 0);
    see(3, FLEET_UNIT_SERVING);
    assert_int_equal(see(3, FLEET_UNIT_GONE), MANAGED_LOST);
    assert_int_equal(see(3, FLEET_UNIT_GONE), MANAGED_GOES_ON);
    assert_int_equal(state_of(3), MANAGED_NONE);
}

TEST_AROUND(strangers_are_taken_over_as_they_are, open_units, NULL) {
    see(7, FLEET_UNIT_SERVING);
    see(8, FLEET_UNIT_DRAINING);
    see(9, FLEET_UNIT_STARTING);
    assert_int_equal(state_of(7), MANAGED_SERVING);
    assert_int_equal(state_of(8), MANAGED_DRAINING);
    assert_int_equal(state_of(9), MANAGED_ORDERED);
    assert_int_equal(managed_units_order(&units, UNIT_PREFILL, 0), 3);
    assert_int_equal(units.units[3].number, 10);
}

TEST_AROUND(one_that_drains_by_itself_leaves, open_units, NULL) {
    see(1, FLEET_UNIT_SERVING);
    see(1, FLEET_UNIT_DRAINING);
    uint32_t index = managed_units_find(&units, 1);
    assert_int_equal(units.units[index].state, MANAGED_DRAINING);
    assert_true(units.units[index].leaves);
}
