/* SPDX-License-Identifier: Apache-2.0
 * Whole fleets, seed by seed (simulate/world/fleet_world.h says what must hold): 20 lives under faults
 * and 5 without (./dev seeds lives many more); FATHOM_SEEDS="first count" asks for others, of which
 * every eighth is lived without faults as well, and with a third number for so many of the last
 * events where one breaks.
 *
 * Bugs planted by hand lie in tests/simulate/mutations; mutants.py plants them one after another
 * (./dev mutants), and prints which of the first hundred seeds finds it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lives.h"

#include "../../slow.h"

static struct fleet_world_report live(uint64_t seed, bool faults) {
    return lives_live(
        (struct fleet_world_options){.seed = seed, .faults = faults, .gateway_dies = true});
}

static void report_sum(const struct fleet_world_report *sum) {
    print_message(
        "# %u asked: %u answered, %u refused, %u cut, %u left; %u deaths, %u freezes, "
        "%u cuts, %u failed steps, %u drains, %u new roles, %u dead ranks; %u losses, %u resumed, "
        "%u preempted\n",
        sum->asked, sum->answered, sum->refused, sum->cut, sum->left, sum->deaths, sum->freezes,
        sum->cuts, sum->failed_steps, sum->drains, sum->roles, sum->rank_deaths,
        (unsigned)sum->losses, (unsigned)sum->resumed, (unsigned)sum->preempted);
    print_message("# apart: %u gateways died (%u clients abandoned), %u network cuts, %u disk "
                  "failures; %u handed over, %u transfers arrived, %u did not, %u late slices; "
                  "%u blocks kept, %u dropped, %u loaded, %u damaged\n",
                  sum->gateway_deaths, sum->abandoned, sum->network_cuts, sum->disk_failures,
                  (unsigned)sum->handed_over, (unsigned)sum->arrived, (unsigned)sum->not_arrived,
                  (unsigned)sum->late_slices, (unsigned)sum->kept, (unsigned)sum->dropped,
                  (unsigned)sum->loaded, (unsigned)sum->refused_blocks);
    print_message("# %u chats answered, %u calls of tools; loads in steps: %u rows waited for "
                  "theirs, %u more in vain; %u beside others\n",
                  sum->chats, (unsigned)sum->calls, (unsigned)sum->in_step,
                  (unsigned)sum->in_step_lost, (unsigned)sum->in_other_step);
    print_message("# %u bound answers, begun %u times; %u masks late, %u tokens forced\n",
                  sum->bound, (unsigned)sum->bound_begun, (unsigned)sum->late,
                  (unsigned)sum->forced);
    print_message("# refused: %u queue full, %u no memory, %u by their rates, %u by their balance, "
                  "%u no unit, %u failed, %u no ledger, %u too late, %u numerics gone; %u "
                  "answered by renewed units\n",
                  sum->refused_by[FLEET_QUEUE_FULL], sum->refused_by[FLEET_NO_MEMORY],
                  sum->refused_by[FLEET_RATE], sum->refused_by[FLEET_UNPAID],
                  sum->refused_by[FLEET_NO_UNIT], sum->refused_by[FLEET_FAILED],
                  sum->refused_by[FLEET_LEDGER], sum->refused_by[FLEET_OVERLOADED],
                  sum->refused_by[FLEET_NUMERICS_GONE], sum->answered_renewed);
    print_message("# ledger: %u entries, of them %u written once more; %u units judged by "
                  "tallies\n",
                  (unsigned)sum->entries, (unsigned)sum->written_again, sum->tallied);
    print_message(
        "# %u gateways, %u units cut off from one, %u called back; shares of two accounts "
        "that wait compared %u times\n",
        sum->gateways, sum->parted, sum->backs, (unsigned)sum->compared);
}

/* Why clients were refused, and by which units they were answered. */
static void add_reasons(struct fleet_world_report *sum, const struct fleet_world_report *report) {
    for (uint32_t i = 0; i < FLEET_REFUSALS; i++)
        sum->refused_by[i] += report->refused_by[i];
    sum->answered_renewed += report->answered_renewed;
}

static void every_answer_survives(void **state) {
    (void)state;
    unsigned long first = 20, count = test_times(20, 5); /* one thread: TSan has little to see */
    struct fleet_world_report sum = {0};
    bool asked_for = lives_take_seeds(&first, &count);
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct fleet_world_report report = live(seed, true);
        sum.asked += report.asked;
        sum.answered += report.answered;
        sum.chats += report.chats;
        sum.calls += report.calls;
        sum.bound += report.bound;
        sum.bound_begun += report.bound_begun;
        sum.late += report.late;
        sum.forced += report.forced;
        sum.refused += report.refused;
        sum.cut += report.cut;
        add_reasons(&sum, &report);
        sum.left += report.left;
        sum.deaths += report.deaths;
        sum.freezes += report.freezes;
        sum.cuts += report.cuts;
        sum.failed_steps += report.failed_steps;
        sum.drains += report.drains;
        sum.roles += report.roles;
        sum.rank_deaths += report.rank_deaths;
        sum.losses += report.losses;
        sum.resumed += report.resumed;
        sum.preempted += report.preempted;
        sum.abandoned += report.abandoned;
        sum.gateway_deaths += report.gateway_deaths;
        sum.network_cuts += report.network_cuts;
        sum.disk_failures += report.disk_failures;
        sum.handed_over += report.handed_over;
        sum.arrived += report.arrived;
        sum.not_arrived += report.not_arrived;
        sum.late_slices += report.late_slices;
        sum.loaded += report.loaded;
        sum.kept += report.kept;
        sum.dropped += report.dropped;
        sum.refused_blocks += report.refused_blocks;
        sum.in_step += report.in_step;
        sum.in_step_lost += report.in_step_lost;
        sum.in_other_step += report.in_other_step;
        sum.entries += report.entries;
        sum.written_again += report.written_again;
        sum.tallied += report.tallied;
        sum.gateways += report.gateways;
        sum.parted += report.parted;
        sum.backs += report.backs;
        sum.compared += report.compared;
    }
    report_sum(&sum);
    if (asked_for || count < 20) return; /* fewer may not meet each fault */
    assert_true(sum.resumed > 200 && sum.losses > 60 && sum.failed_steps > 20);
    assert_true(sum.rank_deaths > 10 && sum.gateway_deaths > 10 && sum.roles > 4);
    assert_true(sum.arrived > 200 && sum.not_arrived > 40 && sum.late_slices > 20);
    assert_true(sum.kept > 200 && sum.loaded > 40 && sum.refused_blocks > 1);
    assert_true(sum.in_step > 60 && sum.in_step_lost > 6 && sum.in_other_step > 20);
    assert_true(sum.chats > 200 && sum.calls > 400);
    assert_true(sum.entries > 1000 && sum.written_again > 20 && sum.tallied > 4);
    assert_true(sum.gateways > 30 && sum.parted > 10 && sum.backs > 4 && sum.compared > 100);
    assert_true(sum.bound > 200 && sum.bound_begun > sum.bound);
    assert_true(sum.late > 200 && sum.forced > 2000);
    assert_true(sum.refused_by[FLEET_RATE] > 40 && sum.refused_by[FLEET_UNPAID] > 10);
    assert_true(sum.answered_renewed > 50 && sum.refused_by[FLEET_NUMERICS_GONE] > 0);
    assert_true(sum.drains > 4 && sum.left > 20 && sum.preempted > 0);
    /* Units are small and often gone, and who floods is refused. */
    assert_true(sum.answered > sum.asked * 45 / 100);
}

static void without_faults_nothing_is_lost(void **state) {
    (void)state;
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

static void a_seed_gives_the_same_life_again(void **state) {
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_survives),
        cmocka_unit_test(without_faults_nothing_is_lost),
        cmocka_unit_test(a_seed_gives_the_same_life_again),
    };
    return cmocka_run_group_tests(tests, open_lives, lives_close);
}
