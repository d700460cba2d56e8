/* SPDX-License-Identifier: Apache-2.0
 * Protects whole fleets whose units a manager starts and ends (simulate/world/fleet_managers.h says
 * what must hold besides what always must), seed by seed: 20 lives under faults of the manager, its
 * launcher, nodes, units, gateways and the network, and 3 without. FATHOM_SEEDS="first count" asks
 * for others, of which every eighth is lived without faults as well, and with a third number for so
 * many of the last events where one breaks.
 *
 * Bugs planted by hand lie in tests/simulate/mutations/managers (./dev mutants).
 */

#include "lives.h"
#include "test_case.h"

#include "../../slow.h"

static struct fleet_world_report live(uint64_t seed, bool faults) {
    return lives_live((struct fleet_world_options){
        .seed = seed, .faults = faults, .gateway_dies = true, .manager = true});
}

TEST(nothing_is_lost_whatever_happens_to_the_manager) {
    unsigned long first = 0, count = test_times(20, 5); /* one thread: TSan has little to see */
    struct fleet_world_report sum = {0};
    bool asked_for = lives_take_seeds(&first, &count);
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct fleet_world_report report = live(seed, true);
        lives_add(&sum, &report);
    }
    lives_print(&sum);
    if (asked_for || count < 20) return; /* fewer may not meet each fault */
    assert_true(sum.acts[FLEET_ACT_START] > 200 && sum.acts[FLEET_ACT_DRAIN] > 50);
    assert_true(sum.acts[FLEET_ACT_RESUME] > 4 && sum.acts[FLEET_ACT_ROLE] > 8);
    assert_true(sum.acts[FLEET_ACT_STOP] > 60 && sum.acts[FLEET_ACT_KILL] > 40);
    assert_true(sum.launched > 200 && sum.launches_failed * 5 > sum.launched);
    assert_true(sum.stopped > 40 && sum.ended_at_once > 4);
    assert_true(sum.manager_deaths > 40 && sum.managers_refused > 20 && sum.adopted > 80);
    assert_true(sum.nodes_lost > 40 && sum.lost_in_drain > 2 && sum.preemptions > 8);
    assert_true(sum.launcher_silences > 20 && sum.blindings > 40 && sum.stale_times > 40);
    assert_true(sum.records_lost > 200 && sum.records_doubled > 200 && sum.jobs_hung > 20);
    assert_true(sum.gateway_deaths > 20 && sum.resumed > 500);
    assert_true(sum.answered > sum.asked / 3);
}

TEST(without_faults_units_follow_the_load) {
    unsigned long first = 0, count = 3;
    unsigned long each = lives_take_seeds(&first, &count) ? 8 : 1;
    struct fleet_world_report sum = {0};
    for (uint64_t seed = first; seed < first + count; seed += each) {
        struct fleet_world_report report = live(seed, false);
        lives_add(&sum, &report);
        assert_true(report.left == 0);
        assert_int_equal(report.manager_lives, 1);
        assert_int_equal(report.cut, 0);
    }
    lives_print(&sum);
    assert_true(sum.acts[FLEET_ACT_START] > 0 && sum.stopped > 0);
}

TEST(a_seed_gives_the_same_life_again) {
    if (getenv("FATHOM_SEEDS")) return;
    struct fleet_world_report first = live(1, true), second = live(1, true);
    assert_true(first.digest == second.digest && first.rest_ns == second.rest_ns);
}

static int open_lives(void **state) {
    (void)state;
    return lives_open("test_fleet_managers");
}

TEST_GROUP(open_lives, lives_close)
