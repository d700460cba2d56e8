/* SPDX-License-Identifier: Apache-2.0
 * Whole fleets whose units stand on hosts, seed by seed (simulate/world/fleet_hosts.h says what must hold
 * besides what always must): 40 lives under faults of ranks, agents, hosts, supervisors and the network
 * between them. FATHOM_SEEDS="first count" asks for others, and with a third number for so many of the
 * last events where one breaks.
 *
 * Bugs planted by hand lie in tests/simulate/mutations/hosts (./dev mutants).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lives.h"

#include "../../slow.h"

static struct fleet_world_report live(uint64_t seed) {
    return lives_live((struct fleet_world_options){
        .seed = seed, .faults = true, .gateway_dies = true, .hosts = true});
}

static void units_come_back_whatever_happens_to_their_hosts(void **state) {
    (void)state;
    unsigned long first = 0, count = test_times(40, 5); /* one thread: TSan has little to see */
    struct fleet_world_report sum = {0};
    bool asked_for = lives_take_seeds(&first, &count);
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct fleet_world_report report = live(seed);
        sum.asked += report.asked;
        sum.answered += report.answered;
        sum.resumed += report.resumed;
        sum.losses += report.losses;
        sum.host_faults += report.host_faults;
        sum.launches += report.launches;
        sum.survived += report.survived;
        sum.again += report.again;
        sum.ranks_given_up += report.ranks_given_up;
        sum.returned += report.returned;
        sum.worked_again += report.worked_again;
        sum.return_ends += report.return_ends;
        sum.return_hangs += report.return_hangs;
        sum.return_cuts += report.return_cuts;
        sum.hosts_lost += report.hosts_lost;
        sum.given_up += report.given_up;
        sum.abandons += report.abandons;
        for (uint32_t i = 0; i < SUPERVISE_VERDICT_COUNT; i++)
            sum.stuck[i] += report.stuck[i];
    }
    print_message("# %u asked: %u answered; %u losses, %u resumed\n", sum.asked, sum.answered,
                  (unsigned)sum.losses, (unsigned)sum.resumed);
    print_message("# %u faults of hosts, %u agents lost, %u launches, %u given up; %u times the "
                  "others went on, %u ranks were started again, %u given up; stuck: %u ranks not "
                  "run, %u computed nothing, %u deadlocks\n",
                  sum.host_faults, sum.hosts_lost, sum.launches, sum.given_up, sum.survived,
                  sum.again, sum.ranks_given_up, sum.stuck[SUPERVISE_FROZEN],
                  sum.stuck[SUPERVISE_STUCK], sum.stuck[SUPERVISE_DEADLOCK]);
    print_message("# on their way back %u ranks ended, %u hung, %u were cut off; %u were back, and "
                  "had rows in %u steps\n",
                  sum.return_ends, sum.return_hangs, sum.return_cuts, sum.returned,
                  sum.worked_again);
    if (asked_for || count < 40) return; /* fewer may not meet each fault */
    assert_true(sum.host_faults > 400 && sum.hosts_lost > 120 && sum.launches > 200);
    assert_true(sum.survived > 16 && sum.resumed > 200);
    assert_true(sum.again > 16 && sum.ranks_given_up > 0);
    assert_true(sum.return_ends > 4 && sum.return_hangs > 0 && sum.return_cuts > 0);
    assert_true(sum.returned > 8 && sum.worked_again > 40);
    assert_true(sum.stuck[SUPERVISE_FROZEN] > 8 && sum.stuck[SUPERVISE_STUCK] > 4);
    assert_true(sum.stuck[SUPERVISE_DEADLOCK] > 0);
    assert_true(sum.answered > sum.asked / 4); /* units are gone for long, and hardly rest */
}

static void a_seed_gives_the_same_life_again(void **state) {
    (void)state;
    if (getenv("FATHOM_SEEDS")) return;
    struct fleet_world_report first = live(1), second = live(1);
    assert_true(first.digest == second.digest && first.rest_ns == second.rest_ns);
}

static int open_lives(void **state) {
    (void)state;
    return lives_open("test_fleet_hosts");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_come_back_whatever_happens_to_their_hosts),
        cmocka_unit_test(a_seed_gives_the_same_life_again),
    };
    return cmocka_run_group_tests(tests, open_lives, lives_close);
}
