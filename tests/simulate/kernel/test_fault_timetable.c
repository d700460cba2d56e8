/* SPDX-License-Identifier: Apache-2.0
 * Protects the times of faults: each kind strikes at its own mean interval, whatever others there
 * are, and nothing strikes after the end.
 */
#include "simulate/kernel/fault_timetable.h"

#include "contract/machine.h"
#include "test_case.h"

struct world {
    uint32_t rare, often;
};

static void strike_rarely(struct world *world, struct fleet_dice *dice) {
    world->rare++;
    dice->draws += 3;
}

static void strike_often(struct world *world, struct fleet_dice *dice) {
    (void)dice;
    world->often++;
}

static const struct fault_kind kinds[] = {{3000, strike_rarely}, {300, strike_often}};

static struct world run(uint32_t count) {
    struct fault_timetable table;
    struct world world = {0};
    uint32_t struck = 0;
    fault_timetable_open(&table, kinds + 2 - count, count, 7, 16 + 2 - count);
    for (int64_t now_ns; (now_ns = fault_timetable_next_ns(&table)) < 600 * FLEET_SECOND;)
        struck += fault_timetable_strike(&table, &world, now_ns);
    assert_int_equal(struck, world.rare + world.often);
    fault_timetable_end(&table);
    assert_int_equal(fault_timetable_next_ns(&table), MACHINE_NEVER);
    assert_int_equal(fault_timetable_strike(&table, &world, 601 * FLEET_SECOND), 0);
    return world;
}

TEST(each_kind_has_its_own_times) {
    struct world both = run(2), alone = run(1);
    assert_in_range(both.rare, 500, 700);
    assert_in_range(both.often, 5500, 6500);
    assert_int_equal(alone.often, both.often);
    assert_int_equal(alone.rare, 0);
}
