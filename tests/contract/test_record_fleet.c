/* SPDX-License-Identifier: Apache-2.0
 * Protects what a fleet's manager is told and what it asks for: units have numbers and roles, orders
 * name what they are about and nothing else.
 */
#include "records.h"

static void a_unit_has_a_number_a_role_and_a_sight(void **state) {
    (void)state;
    struct record_fleet_unit *unit = good_fleet_unit();
    unit->number = 0;
    assert_invalid(unit);
    unit = good_fleet_unit();
    unit->role = UNIT_BOTH;
    assert_invalid(unit);
    unit = good_fleet_unit();
    unit->sight = FLEET_SEEN_COUNT;
    assert_invalid(unit);
    unit = good_fleet_unit();
    unit->held = 2;
    assert_invalid(unit);
}

static void an_order_names_what_it_is_about_and_nothing_else(void **state) {
    (void)state;
    struct record_fleet_order *order = good_fleet_order();
    order->number = 1;
    assert_invalid(order);
    order = good_fleet_order();
    order->role = UNIT_BOTH;
    assert_invalid(order);
    order = good_fleet_order();
    order->wish = FLEET_WISH_DRAIN;
    assert_invalid(order);
    order->number = 1;
    order->role = order->count = 0;
    assert_true(record_valid(order, order->record.bytes));
    order->wish = FLEET_WISH_COUNT;
    assert_invalid(order);
}

static void an_action_is_for_one_unit(void **state) {
    (void)state;
    struct record_fleet_action *action = good_fleet_action();
    action->number = 0;
    assert_invalid(action);
    action = good_fleet_action();
    action->act = FLEET_ACT_STOP; /* it has no role to get */
    assert_invalid(action);
    action = good_fleet_action();
    action->reason = FLEET_REASONS_MAX;
    assert_invalid(action);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_unit_has_a_number_a_role_and_a_sight),
        cmocka_unit_test(an_order_names_what_it_is_about_and_nothing_else),
        cmocka_unit_test(an_action_is_for_one_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
