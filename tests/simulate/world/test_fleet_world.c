/* SPDX-License-Identifier: Apache-2.0
 * Whole fleets, seed by seed (simulate/world/fleet_world.h says what must hold): 20 lives under
 * faults and 5 without (./dev seeds lives many more); FATHOM_SEEDS="first count" asks for others,
 * of which every eighth is lived without faults as well, and with a third number for so many of the
 * last events where one breaks.
 *
 * Bugs planted by hand lie in tests/simulate/mutations; mutants.py plants them one after another
 * (./dev mutants), and prints which of the first hundred seeds finds it.
 */

#include "lives.h"
#include "test_case.h"

#include "../../slow.h"

static struct fleet_world_report live(uint64_t seed, bool faults) {
    return lives_live(
        (struct fleet_world_options){.seed = seed, .faults = faults, .gateway_dies = true});
}

TEST(every_answer_survives) {
    unsigned long first = 20, count = test_times(20, 5); /* one thread: TSan has little to see */
    struct fleet_world_report sum = {0};
    bool asked_for = lives_take_seeds(&first, &count);
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct fleet_world_report report = live(seed, true);
        lives_add(&sum, &report);
    }
    lives_print(&sum);
    if (asked_for || count < 20) return; /* fewer may not meet each fault */
    assert_true(sum.resumed > 200 && sum.losses > 60 && sum.failed_steps > 20);
    assert_true(sum.rank_deaths > 10 && sum.gateway_deaths > 10 && sum.roles > 4);
    assert_true(sum.arrived > 200 && sum.not_arrived > 40 && sum.late_slices > 20);
    assert_true(sum.kept > 200 && sum.loaded > 40 && sum.refused_blocks > 1);
    assert_true(sum.in_step > 60 && sum.in_step_lost > 6 && sum.in_shared_step > 20);
    assert_true(sum.chats > 200 && sum.calls > 400);
    assert_true(sum.entries > 1000 && sum.rewritten > 20 && sum.totals_match > 4);
    assert_true(sum.gateways > 30 && sum.partitions > 10 && sum.undrains > 4 && sum.compared > 100);
    assert_true(sum.constrained > 200 && sum.constrained_starts > sum.constrained);
    assert_true(sum.late > 200 && sum.forced > 2000);
    assert_true(sum.refused_by[FLEET_RATE] > 40 && sum.refused_by[FLEET_UNPAID] > 10);
    assert_true(sum.answered_renewed > 50 && sum.refused_by[FLEET_NUMERICS_GONE] > 0);
    assert_true(sum.drains > 4 && sum.left > 20 && sum.preempted > 0);
    /* Units are small and often gone, and who floods is refused. */
    assert_true(sum.answered > sum.asked * 45 / 100);
}

TEST(without_faults_nothing_is_lost) {
    unsigned long first = 0, count = 5;
    unsigned long each = lives_take_seeds(&first, &count) ? 8 : 1;
    for (uint64_t seed = first; seed < first + count; seed += each) {
        struct fleet_world_report report = live(seed, false);
        assert_true(report.left == 0 && (report.cut == 0 || report.scarce));
        assert_int_equal(report.losses, 0);
        /* Gateways know of one another's requests only what a unit reports: it may refuse some. */
        assert_true(report.resumed == 0 || report.gateways > 1);
    }
}

TEST(a_seed_gives_the_same_life_again) {
    for (uint64_t seed = 0; seed < 3 && !getenv("FATHOM_SEEDS"); seed++) {
        struct fleet_world_report first = live(seed, true), second = live(seed, true);
        assert_true(first.digest == second.digest && first.rest_ns == second.rest_ns);
        assert_true(live(seed + 1, true).digest != first.digest);
    }
}

static int open_lives(void **state) {
    (void)state;
    return lives_open("test_fleet_world");
}

TEST_GROUP(open_lives, lives_close)
