/* SPDX-License-Identifier: Apache-2.0
 * Protects the simulated supervisor: it asks all hosts before it launches on any, asks again whom it
 * has lost, and hears nothing over a link that it has given up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "simulate/world/fleet_state.h"

static struct world *world;
static struct fleet_log events;
static struct fleet_world_report report;

static int begin(void **state) {
    (void)state;
    world = calloc(1, sizeof *world);
    if (!world) return 1;
    world->log = &events;
    world->report = &report;
    world->ranks = 2;
    world->unit_count = 1;
    world->hosts.timeout_ns = FLEET_SECOND;
    world->hosts.part_count[0] = 2;
    for (uint32_t part = 0; part < 2; part++) {
        world->hosts.machine_of[0][part] = part;
        world->hosts.ranks_of[0][part] = 1;
    }
    world->hosts.supervisors[0].place = FLEET_HOME;
    fleet_supervisors_begin(world, 0);
    return 0;
}

static int end(void **state) {
    (void)state;
    free(world);
    return 0;
}

static uint32_t count(enum fleet_frame_kind kind) {
    uint32_t frames = 0;
    for (uint32_t i = 0; i < world->hosts.frame_count; i++)
        frames += world->hosts.frames[i].kind == kind;
    return frames;
}

static void answer(uint32_t part, uint32_t link) {
    fleet_supervisors_take(world,
                           &(struct fleet_frame){.kind = FRAME_FACTS, .part = part, .link = link});
}

static void nothing_is_launched_before_all_hosts_have_answered(void **state) {
    (void)state;
    assert_true(count(FRAME_CONNECT) == 2 && count(FRAME_CHECK) == 2);
    answer(0, 1);
    assert_int_equal(count(FRAME_LAUNCH), 0);
    answer(1, 2);
    assert_int_equal(count(FRAME_LAUNCH), 2);
}

static void a_host_that_is_lost_is_asked_over_another_link(void **state) {
    (void)state;
    answer(0, 1);
    fleet_supervisors_take(world, &(struct fleet_frame){.kind = FRAME_LOST, .part = 1, .link = 2});
    for (int i = 0; i < 20; i++) {
        world->now_ns += FLEET_SECOND / 10;
        fleet_supervisors_run(world, 0);
    }
    assert_true(count(FRAME_CONNECT) >= 3);
    answer(1, 2);
    assert_int_equal(count(FRAME_LAUNCH), 0);
    answer(1, world->hosts.supervisors[0].links[1].id);
    assert_int_equal(report.breach[0], 0);
    assert_int_equal(world->hosts.supervisors[0].links[1].has_answered, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_launched_before_all_hosts_have_answered, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_host_that_is_lost_is_asked_over_another_link, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
