/* SPDX-License-Identifier: Apache-2.0
 * Protects the launcher of simulated fleets: a job waits for a node, begins on one and ends with
 * it; one that has not begun is cancelled; a silent launcher starts and stops nothing.
 */

#include "contract/record_unit.h"
#include "simulate/world/fleet_state.h"
#include "test_case.h"

static struct world *world;
static struct fleet_world_report report;
static struct fleet_log events;

static int open_world(void **state) {
    (void)state;
    world = calloc(1, sizeof *world);
    if (!world) return 1;
    report = (struct fleet_world_report){.digest = 0};
    world->report = &report;
    world->log = &events;
    world->unit_count = 2;
    world->managers.options.rule.start_ns = FLEET_SECOND;
    for (uint32_t i = 0; i < FLEET_UNITS_MAX; i++)
        world->units[i].up_ns = MACHINE_NEVER;
    return 0;
}

static int close_world(void **state) {
    (void)state;
    free(world);
    return 0;
}

static uint32_t node_of(uint32_t number) {
    const struct fleet_unit_job *job = fleet_launcher_find(world, number);
    assert_non_null(job);
    return job->node;
}

TEST_AROUND(a_job_waits_for_a_node, open_world, close_world) {
    for (uint32_t number = 1; number <= 3; number++)
        assert_true(fleet_launcher_start(world, number, UNIT_DECODE));
    fleet_launcher_run(world);
    assert_int_equal(node_of(1), 0);
    assert_int_equal(node_of(2), 1);
    assert_int_equal(node_of(3), FLEET_NO_NODE);
    assert_true(world->units[1].up_ns < MACHINE_NEVER);
    assert_int_equal(world->units[1].number, 2);
    fleet_launcher_stop(world, 1, false); /* it has not begun: it is cancelled */
    assert_true(world->units[0].up_ns == MACHINE_NEVER);
    fleet_launcher_run(world);
    assert_int_equal(node_of(3), 0);
    assert_int_equal(fleet_launcher_count(world), 2);
}

TEST_AROUND(a_lost_node_takes_its_job_along, open_world, close_world) {
    assert_true(fleet_launcher_start(world, 1, UNIT_PREFILL));
    fleet_launcher_run(world);
    fleet_launcher_lose_node(world, 0, FLEET_SECOND);
    assert_int_equal(fleet_launcher_count(world), 0);
    assert_true(fleet_launcher_start(world, 2, UNIT_PREFILL));
    fleet_launcher_run(world);
    assert_int_equal(node_of(2), 1);
    assert_true(fleet_launcher_start(world, 3, UNIT_PREFILL));
    fleet_launcher_run(world);
    assert_int_equal(node_of(3), FLEET_NO_NODE);
    assert_true(fleet_launcher_wake_ns(world) == FLEET_SECOND);
    world->now_ns = FLEET_SECOND;
    fleet_launcher_run(world);
    assert_int_equal(node_of(3), 0);
}

TEST_AROUND(a_silent_launcher_does_nothing, open_world, close_world) {
    assert_true(fleet_launcher_start(world, 1, UNIT_DECODE));
    world->managers.silent_ns = FLEET_SECOND;
    assert_false(fleet_launcher_start(world, 2, UNIT_DECODE));
    fleet_launcher_stop(world, 1, true);
    assert_int_equal(fleet_launcher_count(world), 1);
    world->now_ns = FLEET_SECOND;
    fleet_launcher_stop(world, 1, true);
    assert_int_equal(fleet_launcher_count(world), 0);
}

TEST_AROUND(a_number_that_is_given_twice_is_a_breach, open_world, close_world) {
    assert_true(fleet_launcher_start(world, 7, UNIT_DECODE));
    assert_int_equal(report.breach[0], 0);
    assert_true(fleet_launcher_start(world, 7, UNIT_DECODE));
    assert_string_not_equal(report.breach, "");
}
