/* SPDX-License-Identifier: Apache-2.0
 * Protects what a fleet's manager is told and what it asks for: units have numbers and roles,
 * orders name what they are about and nothing else.
 */
#include "records.h"
#include "test_case.h"

TEST(a_unit_has_a_number_a_role_and_a_state) {
    struct record_fleet_unit *unit = good_fleet_unit();
    unit->number = 0;
    assert_invalid(unit);
    unit = good_fleet_unit();
    unit->role = UNIT_BOTH;
    assert_invalid(unit);
    unit = good_fleet_unit();
    unit->observed_state = FLEET_UNIT_STATE_COUNT;
    assert_invalid(unit);
    unit = good_fleet_unit();
    unit->drained_by_operator = 2;
    assert_invalid(unit);
}

TEST(a_command_names_what_it_is_about_and_nothing_else) {
    struct record_fleet_command *command = good_fleet_command();
    command->number = 1;
    assert_invalid(command);
    command = good_fleet_command();
    command->role = UNIT_BOTH;
    assert_invalid(command);
    command = good_fleet_command();
    command->kind = FLEET_COMMAND_DRAIN;
    assert_invalid(command);
    command->number = 1;
    command->role = command->count = 0;
    assert_true(record_valid(command, command->record.bytes));
    command->kind = FLEET_COMMAND_COUNT;
    assert_invalid(command);
}

TEST(an_action_is_for_one_unit) {
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

TEST(a_gateway_that_does_not_answer_has_no_units) {
    struct record_fleet_gateway *gateway = good_fleet_gateway();
    gateway->responds = 0;
    assert_invalid(gateway);
    gateway = good_fleet_gateway();
    gateway->gateway = LIMIT_FLEET_GATEWAYS;
    assert_invalid(gateway);
    gateway = good_fleet_gateway();
    fleet_gateway_units(gateway)[0].observed_state = FLEET_UNIT_GONE;
    assert_invalid(gateway);
    gateway = good_fleet_gateway();
    memset(fleet_gateway_units(gateway)[0].numerics, 'x', 32);
    assert_invalid(gateway);
}

TEST(a_launchers_job_is_a_unit_of_one_role) {
    struct record_fleet_jobs *jobs = good_fleet_jobs();
    jobs->responds = 0;
    assert_invalid(jobs);
    jobs = good_fleet_jobs();
    fleet_jobs(jobs)[0].role = UNIT_BOTH;
    assert_invalid(jobs);
    jobs = good_fleet_jobs();
    fleet_jobs(jobs)[0].number = 0;
    assert_invalid(jobs);
}

TEST(a_gateway_is_named_where_one_is_asked) {
    struct record_fleet_action *action = good_fleet_action();
    action->connection = 7;
    assert_invalid(action);
    action->act = FLEET_ACT_ROLE;
    assert_true(record_valid(action, action->record.bytes));
}
