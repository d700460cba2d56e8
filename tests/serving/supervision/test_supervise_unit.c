/* SPDX-License-Identifier: Apache-2.0
 * Protects what a supervisor does with a unit: the death of rank 0 and a lost host end in a kill
 * and a new start, and a rank that stands still in its own death; a dead rank is told of, and
 * waited for until rank 0 goes on without it or does not; then it is started again, ever more
 * seldom, counted in when rank 0 goes on with it, or given up; one that hangs on its way back is
 * killed, and one that is slow is not; ranks go with their host; what comes of another start is
 * nothing; who refuses is given up, and who waits for a host is not; hosts are asked before
 * anything is launched, and a silent one is lost.
 */

#include "serving/supervision/supervise_unit.h"
#include "test_case.h"

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

static bool is_silent[2]; /* a host */

/* Orders of a kind that have come since the last time that any were asked for; all are taken. */
static uint32_t counts[SUPERVISE_ORDER_COUNT], kills, rank_kills, killed_rank;
static struct supervise_order last[SUPERVISE_ORDER_COUNT];

static void take(void) {
    struct supervise_order order;
    memset(counts, 0, sizeof counts);
    kills = rank_kills = 0;
    while (supervise_unit_next(&unit, &order)) {
        counts[order.kind]++;
        last[order.kind] = order;
        kills += order.kind == SUPERVISE_KILL && order.rank == SUPERVISE_ALL_RANKS;
        rank_kills += order.kind == SUPERVISE_KILL && order.rank != SUPERVISE_ALL_RANKS;
        if (order.kind == SUPERVISE_KILL) killed_rank = order.rank;
    }
}

static void tick(int64_t ns) {
    now += ns;
    for (uint32_t i = 0; i < 2; i++)
        if (!is_silent[i]) supervise_unit_received(&unit, i, now);
    supervise_unit_tick(&unit, epochs, now);
    take();
}

static void rank_ends(uint32_t number, uint32_t rank, struct supervise_how how) {
    supervise_unit_ended(&unit, rank / 2 % 2, number, rank, how, now);
}

/* All ranks hear of it. */
static void die(uint32_t rank) {
    rank_ends(unit.number, rank, killed);
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

/* Every host that was asked answers, and is right or not; none is to be reached by others. */
static void answer(bool are_right) {
    for (uint32_t i = 0; i < 2; i++)
        supervise_unit_answered(&unit, i, false);
    for (uint32_t i = 0; i < 2; i++)
        supervise_unit_verified(&unit, i, are_right || i == 0, now);
    take();
}

static void start(void) {
    epochs = (struct supervise_epochs){.reported = 0};
    answer(true);
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
    is_silent[0] = is_silent[1] = false;
    supervise_unit_start(&unit, now);
    take();
    assert_true(counts[SUPERVISE_CONNECT] == 2 && counts[SUPERVISE_ASK] == 2);
    return 0;
}

static void end_all(void) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
        rank_ends(unit.number, rank, killed);
    take();
}

TEST_AROUND(a_dead_rank_is_reported_of_and_the_others_go_on, begin, NULL) {
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
        assert_int_equal(kills, 0);
    }
    assert_int_equal(unit.state, SUPERVISE_RUNS);
}

/* Rank 0's word for an earlier death is none for this one. */
TEST_AROUND(a_unit_that_does_not_go_on_without_a_rank_starts_again, begin, NULL) {
    start();
    die(2);
    go_on();
    die(3);
    uint32_t ends = 0;
    for (int i = 0; i < 120 && !ends; i++) {
        report_all(1, HEARTBEAT_IDLE);
        tick(100 * MS);
        ends += kills;
    }
    assert_int_equal(ends, 1);
    assert_int_equal(counts[SUPERVISE_SAY_DIED], 1);
    assert_int_equal(unit.ended_rank, 3);
}

TEST_AROUND(a_dead_rank_comes_back_when_all_go_on_with_it, begin, NULL) {
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
TEST_AROUND(a_unit_that_does_not_go_on_with_a_rank_starts_again, begin, NULL) {
    start();
    die(2);
    go_on();
    epochs.reported++;
    supervise_unit_came(&unit, 2);
    uint32_t ends = 0;
    for (int i = 0; i < 120 && !ends; i++) {
        report_all(1, HEARTBEAT_IDLE);
        tick(100 * MS);
        ends += kills;
    }
    assert_int_equal(ends, 1);
    end_all();
    tick(20 * MS);
    start(); /* with all of them */
    assert_int_equal(members[2].state, SUPERVISE_MEMBER_LIVES);
}

TEST_AROUND(a_rank_that_never_comes_back_is_given_up, begin, NULL) {
    uint32_t starts = 0, given_up = 0;
    int64_t waited_ns = 0;
    start();
    die(1);
    go_on();
    for (int i = 0; i < 1000; i++) {
        starts += counts[SUPERVISE_AGAIN];
        if (counts[SUPERVISE_AGAIN]) {
            rank_ends(1, 1, killed);
            rank_ends(1, 1, killed); /* it has ended by then */
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
    return !rank_kills;
}

static void lose_and_start_again(uint32_t rank) {
    start();
    die(rank);
    go_on();
    assert_int_equal(counts[SUPERVISE_AGAIN], 1);
}

/* And tried again, by the same rules as one that ends. */
TEST_AROUND(a_rank_that_hangs_on_its_way_back_is_killed, begin, NULL) {
    int ticks = 0, given_up = 0;
    lose_and_start_again(2);
    while (comes_on(2, false, 0) && ticks < 100)
        ticks++;
    assert_true(ticks >= 20 && ticks < 25);
    assert_int_equal(last[SUPERVISE_SAY_STUCK].finding.verdict, SUPERVISE_FROZEN);
    assert_int_equal(killed_rank, 2);
    for (int i = 0; i < 1000 && !given_up; i++) {
        comes_on(2, false, 0);
        if (!rank_kills) continue;
        rank_ends(1, 2, killed);
        take();
        given_up += (int)counts[SUPERVISE_SAY_RANK_GIVEN_UP];
    }
    assert_true(given_up == 1 && unit.state == SUPERVISE_RUNS);
}

TEST_AROUND(a_rank_that_packs_nothing_on_its_way_back_is_killed, begin, NULL) {
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
    assert_int_equal(killed_rank, 2);
}

/* All have been told of it, and wait for it. */
TEST_AROUND(a_rank_that_came_and_stands_still_is_killed_alone, begin, NULL) {
    lose_and_start_again(2);
    epochs.reported++;
    supervise_unit_came(&unit, 2);
    supervise_unit_sign(&unit, 1, 2,
                        &(struct supervise_signs){.state = HEARTBEAT_WAITS, .ran = signs[2].ran});
    stand_still(2);
    assert_int_equal(killed_rank, 2);
    assert_int_equal(kills, 0);
}

TEST_AROUND(ranks_that_died_together_come_back_together, begin, NULL) {
    start();
    for (uint32_t rank = 1; rank < RANKS; rank++)
        die(rank);
    go_on();
    assert_int_equal(counts[SUPERVISE_AGAIN], 3);
}

TEST_AROUND(a_lost_host_takes_its_ranks_along, begin, NULL) {
    start();
    supervise_unit_lose_host(&unit, 1, now);
    take();
    assert_true(counts[SUPERVISE_SAY_LOST] == 1 && last[SUPERVISE_SAY_LOST].host == 1);
    assert_true(kills == 1 && unit.state == SUPERVISE_ENDS);
    assert_int_equal(supervise_unit_left(&unit), 2);
    tick(20 * MS);
    assert_int_equal(counts[SUPERVISE_CONNECT], 0); /* killed ones are waited for */
    rank_ends(1, 0, killed);
    rank_ends(1, 1, killed);
    tick(20 * MS);
    /* at once, since it was ready; the other host has answered */
    assert_true(counts[SUPERVISE_CONNECT] == 1 && counts[SUPERVISE_ASK] == 1);
    assert_int_equal(last[SUPERVISE_ASK].host, 1);
    start();
    assert_true(last[SUPERVISE_SAY_READY].again && last[SUPERVISE_SAY_READY].ns == 60 * MS);
}

TEST_AROUND(what_another_start_brings_is_nothing, begin, NULL) {
    start();
    rank_ends(1, 0, killed);
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
    rank_ends(1, 1, killed);
    rank_ends(2, 1, killed); /* nor one that has ended */
    rank_ends(2, RANKS, killed);
    take();
    assert_int_equal(counts[SUPERVISE_REPORT_GONE], 0);
}

TEST_AROUND(rank_0_that_stands_still_ends_its_unit, begin, NULL) {
    start();
    stand_still(0);
    assert_int_equal(counts[SUPERVISE_SAY_STUCK], 1);
    assert_int_equal(last[SUPERVISE_SAY_STUCK].finding.rank, 0);
    assert_true(kills == 1 && rank_kills == 0);
}

TEST_AROUND(another_rank_that_stands_still_is_killed_alone, begin, NULL) {
    start();
    stand_still(3);
    assert_int_equal(last[SUPERVISE_SAY_STUCK].finding.rank, 3);
    assert_true(kills == 0 && rank_kills == 1);
    assert_int_equal(killed_rank, 3);
    assert_int_equal(unit.state, SUPERVISE_RUNS);
    stand_still(3); /* a signal may be lost with what stops it */
    assert_int_equal(rank_kills, 1);
    die(3);
    go_on();
    assert_int_equal(counts[SUPERVISE_AGAIN], 1);
}

TEST_AROUND(ranks_that_wait_for_one_another_end_their_unit, begin, NULL) {
    start();
    for (int i = 0; i < 30 && unit.state == SUPERVISE_RUNS; i++) {
        report_all(1, HEARTBEAT_WAITS);
        tick(100 * MS);
    }
    assert_int_equal(last[SUPERVISE_SAY_STUCK].finding.verdict, SUPERVISE_DEADLOCK);
    assert_int_equal(kills, 1);
}

TEST_AROUND(a_killed_rank_that_does_not_go_away_is_left_behind, begin, NULL) {
    start();
    rank_ends(1, 0, killed);
    rank_ends(1, 1, killed);
    take();
    tick(SECOND);
    assert_int_equal(unit.state, SUPERVISE_ENDS);
    tick(5 * SECOND);
    assert_int_equal(counts[SUPERVISE_ABANDON], 1);
    assert_true(hosts[1].is_abandoned && !hosts[0].is_abandoned);
    assert_true(counts[SUPERVISE_CONNECT] == 1 && last[SUPERVISE_CONNECT].host == 1);
}

TEST_AROUND(who_refuses_before_it_was_ever_ready_is_given_up, begin, NULL) {
    answer(true);
    rank_ends(1, 0, refuses);
    tick(20 * MS);
    assert_int_equal(kills, 0); /* the others have a moment */
    for (uint32_t rank = 1; rank < RANKS; rank++)
        rank_ends(1, rank, refuses);
    tick(20 * MS);
    assert_int_equal(kills, 1);
    tick(20 * MS);
    assert_int_equal(counts[SUPERVISE_GIVE_UP], 1);
    assert_int_equal(unit.state, SUPERVISE_GIVEN_UP);
}

/* Its next start has begun when this is said. */
TEST_AROUND(how_a_unit_ended_before_it_was_ready_is_said, begin, NULL) {
    answer(true);
    end_all();
    for (int i = 0; i < 3 && !counts[SUPERVISE_SAY_UNREADY]; i++)
        tick(20 * MS);
    assert_int_equal(counts[SUPERVISE_SAY_UNREADY], 1);
    assert_true(last[SUPERVISE_SAY_UNREADY].has_ended);
    assert_true(last[SUPERVISE_SAY_UNREADY].how.by_signal);
    assert_int_equal(last[SUPERVISE_SAY_UNREADY].how.number, 9);
}

TEST_AROUND(hosts_that_lack_something_launch_nothing, begin, NULL) {
    answer(false);
    assert_int_equal(counts[SUPERVISE_LAUNCH], 0);
    tick(20 * MS);
    assert_int_equal(counts[SUPERVISE_GIVE_UP], 1);
    assert_int_equal(unit.state, SUPERVISE_GIVEN_UP);
    supervise_unit_lose_host(&unit, 0, now);
    take();
    assert_int_equal(counts[SUPERVISE_SAY_LOST], 0);
}

/* A host that is away when the unit starts again is asked for ever more seldom, and for ever. */
TEST_AROUND(a_unit_that_served_waits_for_its_hosts, begin, NULL) {
    start();
    supervise_unit_lose_host(&unit, 0, now);
    end_all();
    uint32_t checks = 0;
    for (int i = 0; i < 3000; i++) {
        tick(100 * MS);
        assert_int_equal(counts[SUPERVISE_GIVE_UP], 0);
        checks += counts[SUPERVISE_CONNECT];
        if (counts[SUPERVISE_CONNECT]) supervise_unit_lose_host(&unit, 0, now);
    }
    assert_true(checks > 5 && checks < 30);
}

TEST_AROUND(who_is_asked_to_stop_does_not_start_again, begin, NULL) {
    start();
    supervise_unit_stop(&unit);
    take();
    assert_true(counts[SUPERVISE_FINISH] == 1 && kills == 0);
    end_all();
    tick(20 * MS);
    tick(SECOND);
    assert_int_equal(counts[SUPERVISE_CONNECT] + counts[SUPERVISE_VERIFY], 0);
    assert_int_equal(supervise_unit_left(&unit), 0);
}

/* ---- links ---- */

TEST_AROUND(nothing_is_launched_before_all_hosts_have_answered, begin, NULL) {
    supervise_unit_answered(&unit, 0, false);
    take();
    assert_int_equal(counts[SUPERVISE_VERIFY], 0);
    supervise_unit_answered(&unit, 1, false);
    supervise_unit_answered(&unit, 1, false); /* it was asked twice */
    take();
    assert_int_equal(counts[SUPERVISE_VERIFY], 1);
    supervise_unit_verified(&unit, 0, true, now);
    take();
    assert_int_equal(counts[SUPERVISE_LAUNCH], 0);
    supervise_unit_verified(&unit, 1, true, now);
    take();
    assert_true(counts[SUPERVISE_LAUNCH] == 1 && last[SUPERVISE_LAUNCH].number == 1);
}

/* Each tries the other before the first launch; ranks have done so before the later ones. */
TEST_AROUND(hosts_reach_one_another_before_the_first_launch, begin, NULL) {
    for (uint32_t i = 0; i < 2; i++)
        supervise_unit_answered(&unit, i, true);
    for (uint32_t i = 0; i < 2; i++)
        supervise_unit_verified(&unit, i, true, now);
    take();
    assert_true(counts[SUPERVISE_REACH] == 2 && counts[SUPERVISE_LAUNCH] == 0);
    assert_int_equal(last[SUPERVISE_REACH].host + last[SUPERVISE_REACH].other, 1);
    uint32_t round = last[SUPERVISE_REACH].round;
    supervise_unit_reached(&unit, round - 1, false, now); /* of an earlier check */
    supervise_unit_reached(&unit, round, true, now);
    take();
    assert_int_equal(counts[SUPERVISE_LAUNCH], 0);
    supervise_unit_reached(&unit, round, true, now);
    supervise_unit_reached(&unit, round, false, now);
    take();
    assert_int_equal(counts[SUPERVISE_LAUNCH], 1);
    report_all(1, HEARTBEAT_IDLE);
    tick(20 * MS);
    end_all();
    tick(20 * MS);
    assert_int_equal(counts[SUPERVISE_VERIFY], 1);
    answer(true);
    assert_true(counts[SUPERVISE_REACH] == 0 && counts[SUPERVISE_LAUNCH] == 1);
}

TEST_AROUND(a_host_that_is_not_reached_refuses_the_start, begin, NULL) {
    for (uint32_t i = 0; i < 2; i++)
        supervise_unit_answered(&unit, i, true);
    for (uint32_t i = 0; i < 2; i++)
        supervise_unit_verified(&unit, i, true, now);
    take();
    supervise_unit_reached(&unit, last[SUPERVISE_REACH].round, false, now);
    supervise_unit_reached(&unit, last[SUPERVISE_REACH].round, true, now);
    take();
    assert_int_equal(counts[SUPERVISE_LAUNCH], 0);
    tick(20 * MS);
    assert_int_equal(counts[SUPERVISE_GIVE_UP], 1);
}

/* It is asked again before the next start, the other is not. */
TEST_AROUND(a_host_that_lacks_something_is_asked_again, begin, NULL) {
    start();
    end_all();
    tick(20 * MS);
    answer(false);
    assert_true(kills == 1 && counts[SUPERVISE_LAUNCH] == 0);
    for (int i = 0; i < 20 && !counts[SUPERVISE_ASK]; i++)
        tick(100 * MS);
    assert_true(counts[SUPERVISE_ASK] == 1 && counts[SUPERVISE_CONNECT] == 0);
    assert_int_equal(last[SUPERVISE_ASK].host, 1);
}

TEST_AROUND(a_silent_host_is_lost, begin, NULL) {
    uint32_t pings = 0;
    start();
    is_silent[1] = true;
    for (int i = 0; i < 20; i++) {
        report_all(1, HEARTBEAT_IDLE);
        tick(100 * MS);
        pings += counts[SUPERVISE_PING];
        assert_int_equal(counts[SUPERVISE_SAY_LOST], 0);
    }
    assert_true(pings >= 6 && pings <= 8); /* eight within the timeout */
    tick(100 * MS);
    assert_true(counts[SUPERVISE_SAY_LOST] == 1 && last[SUPERVISE_SAY_LOST].host == 1);
    assert_true(last[SUPERVISE_SAY_LOST].ns > TIMEOUT);
    assert_true(kills == 1 && unit.state == SUPERVISE_ENDS);
    assert_false(supervise_unit_received(&unit, 1, now)); /* over a link that was given up */
    assert_true(supervise_unit_received(&unit, 0, now));
    supervise_unit_lose_host(&unit, 1, now);
    take();
    assert_int_equal(counts[SUPERVISE_SAY_LOST], 0); /* once */
}

/* It connects and reads the model's files, also when it is asked over a link that it has. */
TEST_AROUND(a_host_that_was_asked_has_more_time, begin, NULL) {
    is_silent[0] = is_silent[1] = true;
    for (int i = 0; i < 299; i++) {
        tick(100 * MS);
        assert_int_equal(counts[SUPERVISE_SAY_LOST], 0);
    }
    for (uint32_t i = 0; i < 2; i++)
        supervise_unit_received(&unit, i, now);
    start();
    end_all();
    tick(20 * MS);
    answer(false);
    is_silent[0] = false;
    for (int i = 0; i < 200; i++) {
        tick(100 * MS);
        assert_int_equal(counts[SUPERVISE_SAY_LOST], 0);
    }
    for (int i = 0; i < 150 && !counts[SUPERVISE_SAY_LOST]; i++)
        tick(100 * MS);
    assert_int_equal(last[SUPERVISE_SAY_LOST].host, 1);
}

/* Else its first answer would stand for both, and it would be silent over the second question. */
TEST_AROUND(a_host_that_has_not_answered_yet_is_asked_once, begin, NULL) {
    supervise_unit_answered(&unit, 0, false);
    supervise_unit_lose_host(&unit, 0, now);
    tick(20 * MS);
    assert_true(counts[SUPERVISE_CONNECT] == 1 && counts[SUPERVISE_ASK] == 1);
    assert_int_equal(last[SUPERVISE_ASK].host, 0);
    start();
}

/* A host's end is no other host's: ranks end where they run. */
TEST_AROUND(an_end_from_another_host_is_nothing, begin, NULL) {
    start();
    supervise_unit_ended(&unit, 0, 1, 2, killed, now);
    take();
    assert_true(counts[SUPERVISE_REPORT_GONE] == 0 && supervise_unit_left(&unit) == 4);
}
