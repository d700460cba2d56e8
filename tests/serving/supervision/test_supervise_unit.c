/* SPDX-License-Identifier: Apache-2.0
 * Protects what a supervisor does with a unit: the death of rank 0 and a lost host end in a kill and a
 * new start, and a rank that stands still in its own death; a dead rank is told of, and waited for until
 * rank 0 goes on without it or does not; then it is started again, ever more seldom, counted in when
 * rank 0 goes on with it, or given up; one that hangs on its way back is killed, and one that is slow is
 * not; ranks go with their host; what comes of another start is nothing;
 * who refuses is given up, and who waits for a host is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "serving/supervision/supervise_unit.h"

#define RANKS 4
#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define TIMEOUT (2 * SECOND)

static struct supervise_host hosts[2];
static struct supervise_rank ranks[RANKS];
static struct supervise_signs signs[RANKS];
static struct supervise_member members[RANKS];
static struct supervise_unit unit;
static int64_t now;
static struct supervise_epochs epochs;
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

static void tick(int64_t ns) {
    now += ns;
    supervise_unit_tick(&unit, epochs, true, now);
    take();
}

/* All ranks hear of it. */
static void die(uint32_t rank) {
    supervise_unit_ended(&unit, unit.number, rank, killed, now);
    epochs.reported++;
    take();
}

/* Rank 0 goes on with those who live. */
static void go_on(void) {
    epochs.said = epochs.reported;
    tick(100 * MS);
}

static void report_all(uint32_t number, enum heartbeat_state state) {
    static uint64_t ran;
    ran++;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        supervise_unit_sign(&unit, number, rank,
                            &(struct supervise_signs){.state = state, .ran = ran});
}

static void start(void) {
    epochs = (struct supervise_epochs){.reported = 0};
    supervise_unit_checked(&unit, true, now);
    take();
    assert_int_equal(counts[SUPERVISE_LAUNCH], 1);
    report_all(unit.number, HEARTBEAT_IDLE);
    tick(20 * MS);
    assert_int_equal(counts[SUPERVISE_SAY_READY], 1);
}

static int begin(void **state) {
    (void)state;
    hosts[0] = (struct supervise_host){.first = 0, .count = 2};
    hosts[1] = (struct supervise_host){.first = 2, .count = 2};
    unit = (struct supervise_unit){.hosts = hosts,
                                   .host_count = 2,
                                   .signs = signs,
                                   .members = members,
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

static void a_dead_rank_is_reported_of_and_the_others_go_on(void **state) {
    (void)state;
    start();
    die(2);
    assert_true(counts[SUPERVISE_REPORT_GONE] == 1 && last[SUPERVISE_REPORT_GONE].rank == 2);
    assert_int_equal(supervise_unit_left(&unit), 3);
    for (int i = 0; i < 50; i++) {
        report_all(1, HEARTBEAT_IDLE);
        tick(100 * MS);
        assert_int_equal(counts[SUPERVISE_AGAIN], 0); /* one change after another */
    }
    go_on();
    for (int i = 0; i < 200; i++) { /* far more than the time that it has, once it has gone on */
        report_all(1, HEARTBEAT_IDLE);
        tick(100 * MS);
        assert_int_equal(counts[SUPERVISE_KILL], 0);
    }
    assert_int_equal(unit.state, SUPERVISE_RUNS);
}

/* Rank 0's word for an earlier death is none for this one. */
static void a_unit_that_does_not_go_on_without_a_rank_starts_again(void **state) {
    (void)state;
    start();
    die(2);
    go_on();
    die(3);
    uint32_t kills = 0;
    for (int i = 0; i < 120 && !kills; i++) {
        report_all(1, HEARTBEAT_IDLE);
        tick(100 * MS);
        kills += counts[SUPERVISE_KILL];
    }
    assert_int_equal(kills, 1);
    assert_int_equal(counts[SUPERVISE_SAY_DIED], 1);
    assert_int_equal(unit.ended_rank, 3);
}

static void a_dead_rank_comes_back_when_all_go_on_with_it(void **state) {
    (void)state;
    start();
    die(2);
    now += 300 * MS;
    go_on();
    assert_true(counts[SUPERVISE_AGAIN] == 1 && last[SUPERVISE_AGAIN].rank == 2);
    assert_int_equal(last[SUPERVISE_AGAIN].number, 1);
    assert_int_equal(supervise_unit_left(&unit), 4);
    for (int i = 0; i < 200; i++) { /* it reads its weights */
        report_all(1, HEARTBEAT_IDLE);
        tick(100 * MS);
        assert_int_equal(counts[SUPERVISE_SAY_STUCK] + counts[SUPERVISE_SAY_RANK_BACK], 0);
    }
    epochs.reported++;
    supervise_unit_came(&unit, 2);
    supervise_unit_came(&unit, 1); /* which was never away */
    tick(100 * MS);
    assert_int_equal(counts[SUPERVISE_SAY_RANK_BACK], 0);
    go_on();
    assert_true(counts[SUPERVISE_SAY_RANK_BACK] == 1 && last[SUPERVISE_SAY_RANK_BACK].rank == 2);
    assert_int_equal(last[SUPERVISE_SAY_RANK_BACK].ns, 20600 * MS);
    assert_false(signs[2].gone);
    die(2); /* like any other */
    assert_true(counts[SUPERVISE_REPORT_GONE] == 1 && counts[SUPERVISE_SAY_RANK_ENDED] == 0);
    assert_int_equal(supervise_unit_left(&unit), 3);
}

/* Where they have heard that a rank is there again, and it stops them. */
static void a_unit_that_does_not_go_on_with_a_rank_starts_again(void **state) {
    (void)state;
    start();
    die(2);
    go_on();
    epochs.reported++;
    supervise_unit_came(&unit, 2);
    uint32_t kills = 0;
    for (int i = 0; i < 120 && !kills; i++) {
        report_all(1, HEARTBEAT_IDLE);
        tick(100 * MS);
        kills += counts[SUPERVISE_KILL];
    }
    assert_int_equal(kills, 1);
    end_all();
    tick(20 * MS);
    start(); /* with all of them */
    assert_int_equal(members[2].state, SUPERVISE_MEMBER_LIVES);
}

static void a_rank_that_never_comes_back_is_given_up(void **state) {
    (void)state;
    uint32_t starts = 0, given_up = 0;
    int64_t waited_ns = 0;
    start();
    die(1);
    go_on();
    for (int i = 0; i < 1000; i++) {
        starts += counts[SUPERVISE_AGAIN];
        if (counts[SUPERVISE_AGAIN]) {
            supervise_unit_ended(&unit, 1, 1, killed, now);
            supervise_unit_ended(&unit, 1, 1, killed, now); /* it has ended by then */
            take();
            given_up += counts[SUPERVISE_SAY_RANK_GIVEN_UP];
            assert_int_equal(counts[SUPERVISE_SAY_RANK_GIVEN_UP] + counts[SUPERVISE_SAY_RANK_ENDED],
                             1);
            if (counts[SUPERVISE_SAY_RANK_ENDED]) {
                assert_true(last[SUPERVISE_SAY_RANK_ENDED].ns > waited_ns);
                waited_ns = last[SUPERVISE_SAY_RANK_ENDED].ns;
            }
        }
        report_all(1, HEARTBEAT_IDLE);
        tick(100 * MS);
        assert_int_equal(unit.state, SUPERVISE_RUNS);
    }
    assert_true(starts == 4 && given_up == 1);
    assert_int_equal(supervise_unit_left(&unit), 3);
}

/* All others are run. */
static void stand_still(uint32_t rank) {
    for (int i = 0; i < 30; i++) {
        struct supervise_signs reported = signs[rank];
        report_all(1, HEARTBEAT_IDLE);
        supervise_unit_sign(&unit, 1, rank, &reported);
        tick(100 * MS);
        if (counts[SUPERVISE_SAY_STUCK]) return;
    }
}

/* The rank's next signs as it comes back; false: it is killed. */
static bool comes_on(uint32_t rank, bool runs, uint64_t tiles) {
    struct supervise_signs reported = signs[rank];
    report_all(1, HEARTBEAT_IDLE);
    reported.ran += runs;
    reported.tiles = tiles;
    reported.state = HEARTBEAT_STARTS;
    supervise_unit_sign(&unit, 1, rank, &reported);
    tick(100 * MS);
    return !counts[SUPERVISE_KILL_RANK];
}

static void lose_and_start_again(uint32_t rank) {
    start();
    die(rank);
    go_on();
    assert_int_equal(counts[SUPERVISE_AGAIN], 1);
}

/* And tried again, by the same rules as one that ends. */
static void a_rank_that_hangs_on_its_way_back_is_killed(void **state) {
    (void)state;
    int ticks = 0, given_up = 0;
    lose_and_start_again(2);
    while (comes_on(2, false, 0) && ticks < 100)
        ticks++;
    assert_true(ticks >= 20 && ticks < 25);
    assert_int_equal(last[SUPERVISE_SAY_STUCK].finding.verdict, SUPERVISE_FROZEN);
    assert_int_equal(last[SUPERVISE_KILL_RANK].rank, 2);
    for (int i = 0; i < 1000 && !given_up; i++) {
        comes_on(2, false, 0);
        if (!counts[SUPERVISE_KILL_RANK]) continue;
        supervise_unit_ended(&unit, 1, 2, killed, now);
        take();
        given_up += (int)counts[SUPERVISE_SAY_RANK_GIVEN_UP];
    }
    assert_true(given_up == 1 && unit.state == SUPERVISE_RUNS);
}

static void a_rank_that_packs_nothing_on_its_way_back_is_killed(void **state) {
    (void)state;
    uint64_t tiles = 0;
    int ticks = 0;
    lose_and_start_again(2);
    for (; tiles < 40; tiles++)
        for (int i = 0; i < 200; i++) /* a tile every 20 s, which is slow */
            assert_true(comes_on(2, true, tiles));
    while (comes_on(2, true, tiles) && ticks < 1000)
        ticks++;
    assert_true(ticks >= 240 && ticks < 250);
    assert_int_equal(last[SUPERVISE_SAY_STUCK].finding.verdict, SUPERVISE_STUCK);
    assert_int_equal(last[SUPERVISE_KILL_RANK].rank, 2);
}

/* All have been told of it, and wait for it. */
static void a_rank_that_came_and_stands_still_is_killed_alone(void **state) {
    (void)state;
    lose_and_start_again(2);
    epochs.reported++;
    supervise_unit_came(&unit, 2);
    supervise_unit_sign(&unit, 1, 2,
                        &(struct supervise_signs){.state = HEARTBEAT_WAITS, .ran = signs[2].ran});
    stand_still(2);
    assert_int_equal(last[SUPERVISE_KILL_RANK].rank, 2);
    assert_int_equal(counts[SUPERVISE_KILL], 0);
}

static void ranks_that_died_together_come_back_together(void **state) {
    (void)state;
    start();
    for (uint32_t rank = 1; rank < RANKS; rank++)
        die(rank);
    go_on();
    assert_int_equal(counts[SUPERVISE_AGAIN], 3);
}

static void a_lost_host_takes_its_ranks_along(void **state) {
    (void)state;
    start();
    assert_true(supervise_unit_lose_host(&unit, 1, now));
    take();
    assert_true(counts[SUPERVISE_KILL] == 1 && unit.state == SUPERVISE_ENDS);
    assert_int_equal(supervise_unit_left(&unit), 2);
    tick(20 * MS);
    assert_int_equal(counts[SUPERVISE_CHECK], 0); /* killed ones are waited for */
    supervise_unit_ended(&unit, 1, 0, killed, now);
    supervise_unit_ended(&unit, 1, 1, killed, now);
    tick(20 * MS);
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
    tick(20 * MS);
    start();
    assert_int_equal(unit.number, 2);
    assert_false(
        supervise_unit_sign(&unit, 1, 0, &(struct supervise_signs){.state = HEARTBEAT_STARTS}));
    assert_false(supervise_unit_sign(&unit, 2, RANKS, &(struct supervise_signs){.ran = 1}));
    assert_int_equal(signs[0].state, HEARTBEAT_IDLE);
    end_all();
    assert_int_equal(supervise_unit_left(&unit), 0);
    supervise_unit_ended(&unit, 1, 1, killed, now);
    supervise_unit_ended(&unit, 2, 1, killed, now); /* nor one that has ended */
    supervise_unit_ended(&unit, 2, RANKS, killed, now);
    take();
    assert_int_equal(counts[SUPERVISE_REPORT_GONE], 0);
}

static void rank_0_that_stands_still_ends_its_unit(void **state) {
    (void)state;
    start();
    stand_still(0);
    assert_int_equal(counts[SUPERVISE_SAY_STUCK], 1);
    assert_int_equal(last[SUPERVISE_SAY_STUCK].finding.rank, 0);
    assert_true(counts[SUPERVISE_KILL] == 1 && counts[SUPERVISE_KILL_RANK] == 0);
}

static void another_rank_that_stands_still_is_killed_alone(void **state) {
    (void)state;
    start();
    stand_still(3);
    assert_int_equal(last[SUPERVISE_SAY_STUCK].finding.rank, 3);
    assert_true(counts[SUPERVISE_KILL] == 0 && counts[SUPERVISE_KILL_RANK] == 1);
    assert_int_equal(last[SUPERVISE_KILL_RANK].rank, 3);
    assert_int_equal(unit.state, SUPERVISE_RUNS);
    stand_still(3); /* a signal may be lost with what stops it */
    assert_int_equal(counts[SUPERVISE_KILL_RANK], 1);
    die(3);
    go_on();
    assert_int_equal(counts[SUPERVISE_AGAIN], 1);
}

static void ranks_that_wait_for_one_another_end_their_unit(void **state) {
    (void)state;
    start();
    for (int i = 0; i < 30 && unit.state == SUPERVISE_RUNS; i++) {
        report_all(1, HEARTBEAT_WAITS);
        tick(100 * MS);
    }
    assert_int_equal(last[SUPERVISE_SAY_STUCK].finding.verdict, SUPERVISE_DEADLOCK);
    assert_int_equal(counts[SUPERVISE_KILL], 1);
}

static void a_killed_rank_that_does_not_go_away_is_left_behind(void **state) {
    (void)state;
    start();
    supervise_unit_ended(&unit, 1, 0, killed, now);
    supervise_unit_ended(&unit, 1, 1, killed, now);
    take();
    tick(SECOND);
    assert_int_equal(unit.state, SUPERVISE_ENDS);
    tick(5 * SECOND);
    assert_int_equal(counts[SUPERVISE_ABANDON], 1);
    assert_true(hosts[1].is_abandoned && !hosts[0].is_abandoned);
    assert_int_equal(counts[SUPERVISE_CHECK], 1);
}

static void who_refuses_before_it_was_ever_ready_is_given_up(void **state) {
    (void)state;
    supervise_unit_checked(&unit, true, now);
    take();
    supervise_unit_ended(&unit, 1, 0, refuses, now);
    tick(20 * MS);
    assert_int_equal(counts[SUPERVISE_KILL], 0); /* the others have a moment */
    for (uint32_t rank = 1; rank < RANKS; rank++)
        supervise_unit_ended(&unit, 1, rank, refuses, now);
    tick(20 * MS);
    assert_int_equal(counts[SUPERVISE_KILL], 1);
    tick(20 * MS);
    assert_int_equal(counts[SUPERVISE_GIVE_UP], 1);
    assert_int_equal(unit.state, SUPERVISE_GIVEN_UP);
}

/* Its next start has begun when this is said. */
static void how_a_unit_ended_before_it_was_ready_is_said(void **state) {
    (void)state;
    supervise_unit_checked(&unit, true, now);
    take();
    end_all();
    for (int i = 0; i < 3 && !counts[SUPERVISE_SAY_UNREADY]; i++)
        tick(20 * MS);
    assert_int_equal(counts[SUPERVISE_SAY_UNREADY], 1);
    assert_true(last[SUPERVISE_SAY_UNREADY].has_ended);
    assert_true(last[SUPERVISE_SAY_UNREADY].how.by_signal);
    assert_int_equal(last[SUPERVISE_SAY_UNREADY].how.number, 9);
}

static void hosts_that_lack_something_launch_nothing(void **state) {
    (void)state;
    supervise_unit_checked(&unit, false, now);
    take();
    assert_int_equal(counts[SUPERVISE_LAUNCH], 0);
    tick(20 * MS);
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
        tick(100 * MS);
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
    tick(20 * MS);
    tick(SECOND);
    assert_int_equal(counts[SUPERVISE_CHECK], 0);
    assert_int_equal(supervise_unit_left(&unit), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_dead_rank_is_reported_of_and_the_others_go_on, begin),
        cmocka_unit_test_setup(a_unit_that_does_not_go_on_without_a_rank_starts_again, begin),
        cmocka_unit_test_setup(a_dead_rank_comes_back_when_all_go_on_with_it, begin),
        cmocka_unit_test_setup(a_unit_that_does_not_go_on_with_a_rank_starts_again, begin),
        cmocka_unit_test_setup(a_rank_that_never_comes_back_is_given_up, begin),
        cmocka_unit_test_setup(a_rank_that_hangs_on_its_way_back_is_killed, begin),
        cmocka_unit_test_setup(a_rank_that_packs_nothing_on_its_way_back_is_killed, begin),
        cmocka_unit_test_setup(a_rank_that_came_and_stands_still_is_killed_alone, begin),
        cmocka_unit_test_setup(ranks_that_died_together_come_back_together, begin),
        cmocka_unit_test_setup(a_lost_host_takes_its_ranks_along, begin),
        cmocka_unit_test_setup(what_another_start_brings_is_nothing, begin),
        cmocka_unit_test_setup(rank_0_that_stands_still_ends_its_unit, begin),
        cmocka_unit_test_setup(another_rank_that_stands_still_is_killed_alone, begin),
        cmocka_unit_test_setup(ranks_that_wait_for_one_another_end_their_unit, begin),
        cmocka_unit_test_setup(a_killed_rank_that_does_not_go_away_is_left_behind, begin),
        cmocka_unit_test_setup(who_refuses_before_it_was_ever_ready_is_given_up, begin),
        cmocka_unit_test_setup(how_a_unit_ended_before_it_was_ready_is_said, begin),
        cmocka_unit_test_setup(hosts_that_lack_something_launch_nothing, begin),
        cmocka_unit_test_setup(a_unit_that_served_waits_for_its_hosts, begin),
        cmocka_unit_test_setup(who_is_asked_to_stop_does_not_start_again, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
