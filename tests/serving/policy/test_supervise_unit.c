/* SPDX-License-Identifier: Apache-2.0
 * Protects what a supervisor does with a unit: a death, a lost host and a rank that stands still end in
 * a kill and a new start; a dead rank is told of, and waited for until rank 0 goes on without it or does
 * not; ranks go with their host; what comes of another start is nothing; who refuses is given up,
 * and who waits for a host is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "serving/policy/supervise_unit.h"

#define RANKS 4
#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define TIMEOUT (2 * SECOND)

static struct supervise_host hosts[2];
static struct supervise_rank ranks[RANKS];
static struct supervise_signs signs[RANKS];
static struct supervise_unit unit;
static int64_t now;
static const struct supervise_how killed = {.by_signal = true, .number = 9},
                                  refuses = {.number = 2};

/* Orders of a kind that have come since the last time that any were asked for; all are taken. */
static uint32_t counts[SUPERVISE_ORDER_COUNT];
static struct supervise_order last[SUPERVISE_ORDER_COUNT];

static void take(void) {
    struct supervise_order order;
    memset(counts, 0, sizeof counts);
    while (supervise_unit_next(&unit, &order)) {
        counts[order.kind]++;
        last[order.kind] = order;
    }
}

static void tick(int64_t ns, uint32_t goes_on) {
    now += ns;
    supervise_unit_tick(&unit, goes_on, true, now);
    take();
}

static void tell_all(uint32_t number, enum pulse_state state) {
    static uint64_t ran;
    ran++;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        supervise_unit_sign(&unit, number, rank,
                            &(struct supervise_signs){.state = state, .ran = ran});
}

static void start(void) {
    supervise_unit_checked(&unit, true, now);
    take();
    assert_int_equal(counts[SUPERVISE_LAUNCH], 1);
    tell_all(unit.number, PULSE_IDLE);
    tick(20 * MS, 0);
    assert_int_equal(counts[SUPERVISE_SAY_READY], 1);
}

static int begin(void **state) {
    (void)state;
    hosts[0] = (struct supervise_host){.first = 0, .count = 2};
    hosts[1] = (struct supervise_host){.first = 2, .count = 2};
    unit = (struct supervise_unit){.hosts = hosts,
                                   .host_count = 2,
                                   .signs = signs,
                                   .watch = {.ranks = ranks, .rank_count = RANKS},
                                   .timeout = {TIMEOUT, TIMEOUT}};
    now = 100 * SECOND;
    supervise_unit_start(&unit, now);
    take();
    assert_int_equal(counts[SUPERVISE_CHECK], 1);
    return 0;
}

static void end_all(void) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
        supervise_unit_ended(&unit, unit.number, rank, killed, now);
    take();
}

static void a_dead_rank_is_told_of_and_the_others_go_on(void **state) {
    (void)state;
    start();
    supervise_unit_ended(&unit, 1, 2, killed, now);
    take();
    assert_true(counts[SUPERVISE_TELL_GONE] == 1 && last[SUPERVISE_TELL_GONE].rank == 2);
    assert_int_equal(supervise_unit_left(&unit), 3);
    for (int i = 0; i < 200; i++) { /* far more than the time that it has, once it has gone on */
        tell_all(1, PULSE_IDLE);
        tick(100 * MS, 3);
        assert_int_equal(counts[SUPERVISE_KILL], 0);
    }
    assert_int_equal(unit.state, SUPERVISE_RUNS);
}

/* Rank 0's word for an earlier death is none for this one. */
static void a_unit_that_does_not_go_on_without_a_rank_starts_again(void **state) {
    (void)state;
    start();
    supervise_unit_ended(&unit, 1, 2, killed, now);
    tick(100 * MS, 3);
    supervise_unit_ended(&unit, 1, 3, killed, now);
    take();
    uint32_t kills = 0;
    for (int i = 0; i < 120 && !kills; i++) {
        tell_all(1, PULSE_IDLE);
        tick(100 * MS, 3);
        kills += counts[SUPERVISE_KILL];
    }
    assert_int_equal(kills, 1);
    assert_int_equal(counts[SUPERVISE_SAY_DIED], 1);
    assert_int_equal(unit.ended_rank, 3);
}

static void a_lost_host_takes_its_ranks_along(void **state) {
    (void)state;
    start();
    assert_true(supervise_unit_lose_host(&unit, 1, now));
    take();
    assert_true(counts[SUPERVISE_KILL] == 1 && unit.state == SUPERVISE_ENDS);
    assert_int_equal(supervise_unit_left(&unit), 2);
    tick(20 * MS, 0);
    assert_int_equal(counts[SUPERVISE_CHECK], 0); /* killed ones are waited for */
    supervise_unit_ended(&unit, 1, 0, killed, now);
    supervise_unit_ended(&unit, 1, 1, killed, now);
    tick(20 * MS, 0);
    assert_int_equal(counts[SUPERVISE_CHECK], 1); /* at once, since it was ready */
    start();
    assert_true(last[SUPERVISE_SAY_READY].again && last[SUPERVISE_SAY_READY].ns == 60 * MS);
}

static void what_another_start_brings_is_nothing(void **state) {
    (void)state;
    start();
    supervise_unit_ended(&unit, 1, 0, killed, now);
    take();
    assert_int_equal(counts[SUPERVISE_SAY_DIED], 1);
    end_all();
    tick(20 * MS, 0);
    start();
    assert_int_equal(unit.number, 2);
    assert_false(
        supervise_unit_sign(&unit, 1, 0, &(struct supervise_signs){.state = PULSE_STARTS}));
    assert_false(supervise_unit_sign(&unit, 2, RANKS, &(struct supervise_signs){.ran = 1}));
    assert_int_equal(signs[0].state, PULSE_IDLE);
    end_all();
    assert_int_equal(supervise_unit_left(&unit), 0);
    supervise_unit_ended(&unit, 1, 1, killed, now);
    supervise_unit_ended(&unit, 2, 1, killed, now); /* nor one that has ended */
    supervise_unit_ended(&unit, 2, RANKS, killed, now);
    take();
    assert_int_equal(counts[SUPERVISE_TELL_GONE], 0);
}

static void a_rank_that_stands_still_ends_its_unit(void **state) {
    (void)state;
    start();
    for (int i = 0; i < 30 && unit.state == SUPERVISE_RUNS; i++) {
        struct supervise_signs told = signs[3];
        tell_all(1, PULSE_IDLE);
        supervise_unit_sign(&unit, 1, 3, &told);
        tick(100 * MS, 0);
    }
    assert_int_equal(counts[SUPERVISE_SAY_STUCK], 1);
    assert_int_equal(last[SUPERVISE_SAY_STUCK].finding.rank, 3);
    assert_int_equal(counts[SUPERVISE_KILL], 1);
}

static void a_killed_rank_that_does_not_go_away_is_left_behind(void **state) {
    (void)state;
    start();
    supervise_unit_ended(&unit, 1, 0, killed, now);
    supervise_unit_ended(&unit, 1, 1, killed, now);
    take();
    tick(SECOND, 0);
    assert_int_equal(unit.state, SUPERVISE_ENDS);
    tick(5 * SECOND, 0);
    assert_int_equal(counts[SUPERVISE_ABANDON], 1);
    assert_true(hosts[1].is_abandoned && !hosts[0].is_abandoned);
    assert_int_equal(counts[SUPERVISE_CHECK], 1);
}

static void who_refuses_before_it_was_ever_ready_is_given_up(void **state) {
    (void)state;
    supervise_unit_checked(&unit, true, now);
    take();
    supervise_unit_ended(&unit, 1, 0, refuses, now);
    tick(20 * MS, 0);
    assert_int_equal(counts[SUPERVISE_KILL], 0); /* the others have a moment */
    for (uint32_t rank = 1; rank < RANKS; rank++)
        supervise_unit_ended(&unit, 1, rank, refuses, now);
    tick(20 * MS, 0);
    assert_int_equal(counts[SUPERVISE_KILL], 1);
    tick(20 * MS, 0);
    assert_int_equal(counts[SUPERVISE_GIVE_UP], 1);
    assert_int_equal(unit.state, SUPERVISE_GIVEN_UP);
}

static void hosts_that_lack_something_launch_nothing(void **state) {
    (void)state;
    supervise_unit_checked(&unit, false, now);
    take();
    assert_int_equal(counts[SUPERVISE_LAUNCH], 0);
    tick(20 * MS, 0);
    assert_int_equal(counts[SUPERVISE_GIVE_UP], 1);
    assert_int_equal(unit.state, SUPERVISE_GIVEN_UP);
    assert_false(supervise_unit_lose_host(&unit, 0, now));
}

/* A host that is away when the unit starts again is asked for ever more seldom, and for ever. */
static void a_unit_that_served_waits_for_its_hosts(void **state) {
    (void)state;
    start();
    supervise_unit_lose_host(&unit, 0, now);
    end_all();
    uint32_t checks = 0;
    for (int i = 0; i < 3000; i++) {
        tick(100 * MS, 0);
        assert_int_equal(counts[SUPERVISE_GIVE_UP], 0);
        checks += counts[SUPERVISE_CHECK];
        if (counts[SUPERVISE_CHECK]) supervise_unit_lose_host(&unit, 0, now);
    }
    assert_true(checks > 5 && checks < 30);
}

static void who_is_asked_to_stop_does_not_start_again(void **state) {
    (void)state;
    start();
    assert_true(supervise_unit_stop(&unit));
    end_all();
    tick(20 * MS, 0);
    tick(SECOND, 0);
    assert_int_equal(counts[SUPERVISE_CHECK], 0);
    assert_int_equal(supervise_unit_left(&unit), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_dead_rank_is_told_of_and_the_others_go_on, begin),
        cmocka_unit_test_setup(a_unit_that_does_not_go_on_without_a_rank_starts_again, begin),
        cmocka_unit_test_setup(a_lost_host_takes_its_ranks_along, begin),
        cmocka_unit_test_setup(what_another_start_brings_is_nothing, begin),
        cmocka_unit_test_setup(a_rank_that_stands_still_ends_its_unit, begin),
        cmocka_unit_test_setup(a_killed_rank_that_does_not_go_away_is_left_behind, begin),
        cmocka_unit_test_setup(who_refuses_before_it_was_ever_ready_is_given_up, begin),
        cmocka_unit_test_setup(hosts_that_lack_something_launch_nothing, begin),
        cmocka_unit_test_setup(a_unit_that_served_waits_for_its_hosts, begin),
        cmocka_unit_test_setup(who_is_asked_to_stop_does_not_start_again, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
