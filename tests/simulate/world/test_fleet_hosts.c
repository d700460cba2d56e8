/* SPDX-License-Identifier: Apache-2.0
 * Whole fleets whose units stand on hosts, seed by seed (simulate/world/fleet_hosts.h says what
 * must hold besides what always must): 40 lives under faults of ranks, agents, hosts, supervisors
 * and the network between them. FATHOM_SEEDS="first count" asks for others, and with a third number
 * for so many of the last events where one breaks.
 *
 * Bugs planted by hand lie in tests/simulate/mutations/hosts (./dev mutants).
 */

#include "lives.h"
#include "test_case.h"

#include "../../slow.h"

static struct fleet_world_report live(uint64_t seed) {
    return lives_live((struct fleet_world_options){
        .seed = seed, .faults = true, .gateway_dies = true, .hosts = true});
}

TEST(units_come_back_whatever_happens_to_their_hosts) {
    unsigned long first = 0, count = test_times(40, 5); /* one thread: TSan has little to see */
    struct fleet_world_report sum = {0};
    bool asked_for = lives_take_seeds(&first, &count);
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct fleet_world_report report = live(seed);
        lives_add(&sum, &report);
    }
    lives_print(&sum);
    if (asked_for || count < 40) return; /* fewer may not meet each fault */
    assert_true(sum.host_faults > 400 && sum.hosts_lost > 120 && sum.launches > 200);
    assert_true(sum.survived > 16 && sum.resumed > 200);
    assert_true(sum.restarts > 16);
    assert_true(sum.return_ends > 4 && sum.return_hangs > 0 && sum.return_cuts > 0);
    assert_true(sum.returned > 8 && sum.worked_again > 40);
    assert_true(sum.stuck[SUPERVISE_FROZEN] > 8 && sum.stuck[SUPERVISE_STUCK] > 4);
    assert_true(sum.stuck[SUPERVISE_DEADLOCK] > 0);
    assert_true(sum.links_broken > 10 && sum.starts_failed > 0 && sum.refused_hosts > 0);
    assert_true(sum.late_answers > 4 && sum.doubled > 0);
    assert_true(sum.answered > sum.asked / 4); /* units are gone for long, and hardly rest */
}

TEST(a_seed_gives_the_same_life_again) {
    if (getenv("FATHOM_SEEDS")) return;
    struct fleet_world_report first = live(1), second = live(1);
    assert_true(first.digest == second.digest && first.rest_ns == second.rest_ns);
}

static int open_lives(void **state) {
    (void)state;
    return lives_open("test_fleet_hosts");
}

TEST_GROUP(open_lives, lives_close)
