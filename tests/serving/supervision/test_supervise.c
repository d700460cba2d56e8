/* SPDX-License-Identifier: Apache-2.0
 * Protects the supervisor's judgement: who computes nothing is stuck and who waits for him is not;
 * who is not run at all is found whatever it did; all who wait while nothing moves are a deadlock,
 * and hosts between which the network is cut are named; nobody is blamed for the supervisor's own
 * absence; a unit that ends is started again at once, then ever later, and given up only before it
 * ever served.
 */

#include "serving/supervision/supervise.h"
#include "test_case.h"

#define RANKS 4
#define MS INT64_C(1000000)
#define TIMEOUT (2000 * MS)
#define CPU (1000 * MS)

static struct supervise_rank ranks[RANKS];
static struct supervise_watch watch;
static struct supervise_signs signs[RANKS];
static int64_t now;

static void begin(enum heartbeat_state state) {
    memset(ranks, 0, sizeof ranks);
    watch = (struct supervise_watch){.ranks = ranks, .rank_count = RANKS};
    now = 50 * TIMEOUT;
    for (uint32_t i = 0; i < RANKS; i++)
        signs[i] = (struct supervise_signs){.state = state, .tiles = 5, .ran = 7};
}

/* Looks every 200 ms until something is found, at most for so long. `moves`: ranks (as bits) that
 * finish tiles; `runs`: those that the scheduler runs. */
static struct supervise_finding watch_for(int64_t ns, uint32_t moves, uint32_t runs) {
    struct supervise_finding found = {.verdict = SUPERVISE_FINE};
    for (int64_t end = now + ns; now < end && !found.verdict; now += 200 * MS) {
        for (uint32_t i = 0; i < RANKS; i++) {
            signs[i].tiles += moves >> i & 1;
            signs[i].ran += runs >> i & 1;
        }
        found = supervise_look(&watch, signs, (struct supervise_timeout){TIMEOUT, CPU}, now);
    }
    return found;
}

TEST(a_rank_that_computes_nothing_is_stuck) {
    begin(HEARTBEAT_WAITS);
    signs[2].state = HEARTBEAT_COMPUTES;
    struct supervise_finding found = watch_for(10 * TIMEOUT, 0, 0xF);
    assert_int_equal(found.verdict, SUPERVISE_STUCK);
    assert_int_equal(found.rank, 2);
    assert_true(found.silent_ns >= TIMEOUT && found.silent_ns < TIMEOUT + 400 * MS);
}

TEST(nothing_is_expected_of_a_rank_that_is_gone) {
    begin(HEARTBEAT_IDLE);
    signs[2].state = HEARTBEAT_COMPUTES;
    signs[2].gone = true;
    assert_int_equal(watch_for(10 * TIMEOUT, 0, 0xB).verdict, SUPERVISE_FINE);
    for (uint32_t i = 0; i < RANKS; i++)
        if (i != 2) signs[i].state = HEARTBEAT_WAITS;
    assert_int_equal(watch_for(100 * TIMEOUT, 0, 0xB).verdict, SUPERVISE_DEADLOCK);
}

/* They have waited for it as long as it stood still; now they have a whole timeout to go on. */
TEST(who_has_waited_for_a_rank_that_died_is_in_no_deadlock) {
    begin(HEARTBEAT_WAITS);
    assert_int_equal(watch_for(10 * TIMEOUT, 0, 0xB).verdict, SUPERVISE_FROZEN);
    signs[2].gone = true;
    assert_int_equal(watch_for(TIMEOUT, 0, 0xB).verdict, SUPERVISE_FINE);
    assert_int_equal(watch_for(TIMEOUT, 0, 0xB).verdict, SUPERVISE_DEADLOCK);
}

TEST(a_rank_that_gets_no_time_is_not_blamed) {
    begin(HEARTBEAT_WAITS);
    signs[2].state = HEARTBEAT_COMPUTES;
    signs[2].cpu_ns = 700 * MS;
    assert_int_equal(watch_for(20 * TIMEOUT, 0, 0xF).verdict, SUPERVISE_FINE);
    signs[2].cpu_ns += CPU - MS;
    assert_int_equal(watch_for(20 * TIMEOUT, 0, 0xF).verdict, SUPERVISE_FINE);
    signs[2].cpu_ns += MS;
    assert_int_equal(watch_for(TIMEOUT, 0, 0xF).verdict, SUPERVISE_STUCK);
}

/* Where signs come from a thread of their own, no long start holds them up. */
TEST(a_rank_that_starts_is_judged_where_its_signs_go_on) {
    begin(HEARTBEAT_STARTS);
    assert_int_equal(watch_for(20 * TIMEOUT, 0, 0x7).verdict, SUPERVISE_FINE);
    begin(HEARTBEAT_STARTS);
    watch.from_start = true;
    assert_int_equal(watch_for(20 * TIMEOUT, 0, 0xF).verdict, SUPERVISE_FINE);
    struct supervise_finding found = watch_for(2 * TIMEOUT, 0, 0x7);
    assert_int_equal(found.verdict, SUPERVISE_FROZEN);
    assert_int_equal(found.rank, 3);
}

TEST(a_rank_that_comes_back_is_given_twelve_times_as_long) {
    begin(HEARTBEAT_WAITS);
    signs[2].state = HEARTBEAT_STARTS;
    signs[2].gone = signs[2].returns = true;
    assert_int_equal(watch_for(12 * TIMEOUT, 0xB, 0xF).verdict, SUPERVISE_FINE);
    struct supervise_finding found = watch_for(TIMEOUT, 0xB, 0xF);
    assert_int_equal(found.verdict, SUPERVISE_STUCK);
    assert_int_equal(found.rank, 2);
}

TEST(ranks_that_work_or_rest_are_fine) {
    begin(HEARTBEAT_COMPUTES);
    assert_int_equal(watch_for(20 * TIMEOUT, 0xF, 0xF).verdict, SUPERVISE_FINE);
    begin(HEARTBEAT_WAITS);
    signs[0].state = HEARTBEAT_IDLE;
    assert_int_equal(watch_for(20 * TIMEOUT, 0, 0xF).verdict, SUPERVISE_FINE);
    begin(HEARTBEAT_STARTS); /* a checkpoint may take hours */
    assert_int_equal(watch_for(20 * TIMEOUT, 0, 0).verdict, SUPERVISE_FINE);
}

TEST(a_stopped_rank_is_found_in_any_state) {
    for (int at = HEARTBEAT_IDLE; at <= HEARTBEAT_WAITS; at++) {
        begin(HEARTBEAT_WAITS);
        signs[0].state = HEARTBEAT_IDLE;
        signs[3].state = (enum heartbeat_state)at;
        struct supervise_finding found = watch_for(10 * TIMEOUT, 0, 0x7);
        assert_int_equal(found.verdict, SUPERVISE_FROZEN);
        assert_int_equal(found.rank, 3);
    }
    begin(HEARTBEAT_WAITS); /* and before one that waits within a send, as if it computed */
    signs[0].state = HEARTBEAT_COMPUTES;
    struct supervise_finding found = watch_for(10 * TIMEOUT, 0, 0xD);
    assert_int_equal(found.verdict, SUPERVISE_FROZEN);
    assert_int_equal(found.rank, 1);
}

TEST(a_rank_of_which_nothing_is_known_is_not_blamed) {
    begin(HEARTBEAT_WAITS);
    signs[0].state = HEARTBEAT_IDLE;
    signs[3].ran = 0; /* on another machine */
    assert_int_equal(watch_for(20 * TIMEOUT, 0, 0x7).verdict, SUPERVISE_FINE);
}

TEST(all_waiting_for_one_another_is_a_deadlock) {
    begin(HEARTBEAT_WAITS);
    struct supervise_finding found = watch_for(20 * TIMEOUT, 0, 0xF);
    assert_int_equal(found.verdict, SUPERVISE_DEADLOCK);
    assert_true(found.silent_ns >= TIMEOUT && found.silent_ns < TIMEOUT + 400 * MS);
}

/* It was seen to run a moment longer than the others were seen to move. */
TEST(who_waits_for_a_stopped_rank_is_in_no_deadlock) {
    begin(HEARTBEAT_WAITS);
    assert_int_equal(watch_for(400 * MS, 0, 0xF).verdict, SUPERVISE_FINE);
    struct supervise_finding found = watch_for(10 * TIMEOUT, 0, 0x7);
    assert_int_equal(found.verdict, SUPERVISE_FROZEN);
    assert_int_equal(found.rank, 3);
}

/* A slow link, a lossy one and a long one bring something now and then. */
TEST(ranks_between_which_anything_moves_are_no_deadlock) {
    begin(HEARTBEAT_WAITS);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(watch_for(TIMEOUT - 400 * MS, 0, 0xF).verdict, SUPERVISE_FINE);
        signs[2].moved++;
    }
    assert_int_equal(watch_for(2 * TIMEOUT, 0, 0xF).verdict, SUPERVISE_DEADLOCK);
}

static bool find_cut(uint32_t cut_out[2]) {
    static const uint32_t hosts[RANKS] = {0, 1, 2, 2};
    return supervise_find_cut(signs, hosts, RANKS, cut_out);
}

/* Ranks of a third host wait for either, and nobody there for them. */
TEST(two_hosts_that_do_not_receive_each_other_are_named) {
    uint32_t cut[2] = {9, 9};
    begin(HEARTBEAT_WAITS);
    assert_false(find_cut(cut)); /* nobody says for whom it waits */
    signs[0].peer = 1 + 1;
    signs[1].peer = 3 + 1;
    signs[3].peer = 2 + 1;
    signs[2].peer = 3 + 1; /* on its own host */
    assert_false(find_cut(cut));
    signs[2].peer = 1 + 1;
    assert_true(find_cut(cut));
    assert_int_equal(cut[0], 1);
    assert_int_equal(cut[1], 2);
    signs[1].gone = true;
    assert_false(find_cut(cut));
    signs[1].gone = false;
    signs[1].peer = RANKS + 1; /* it came from outside */
    assert_false(find_cut(cut));
}

/* A host that waits for another in vain proves less than two that wait for each other. */
TEST(two_that_wait_for_each_other_are_named_first) {
    uint32_t cut[2] = {9, 9};
    begin(HEARTBEAT_WAITS);
    signs[0].peer = 2 + 1; /* which waits for nobody */
    signs[1].peer = 3 + 1;
    signs[3].peer = 1 + 1;
    assert_true(find_cut(cut));
    assert_int_equal(cut[0], 1);
    assert_int_equal(cut[1], 2);
}

/* The last message of a step went into the cut: who sent it waits for an order. */
TEST(a_host_that_has_sent_all_is_named_with_the_one_that_waits_for_it) {
    uint32_t cut[2] = {9, 9};
    begin(HEARTBEAT_WAITS);
    signs[0].peer = 2 + 1;
    signs[2].peer = 1 + 1;
    assert_true(find_cut(cut));
    assert_int_equal(cut[0], 2);
    assert_int_equal(cut[1], 1);
}

TEST(the_supervisors_own_absence_is_forgiven) {
    begin(HEARTBEAT_COMPUTES);
    assert_int_equal(watch_for(TIMEOUT / 2, 0xF, 0xF).verdict, SUPERVISE_FINE);
    now += 100 * TIMEOUT; /* the machine slept */
    assert_int_equal(watch_for(TIMEOUT - 400 * MS, 0, 0).verdict, SUPERVISE_FINE);
    assert_int_equal(watch_for(TIMEOUT, 0, 0).verdict, SUPERVISE_FROZEN);
}

TEST(ranks_that_share_a_cpu_get_more_time) {
    assert_int_equal(supervise_timeout(TIMEOUT, 2, 2).wall_ns, TIMEOUT);
    assert_int_equal(supervise_timeout(TIMEOUT, 8, 2).wall_ns, 4 * TIMEOUT);
    assert_int_equal(supervise_timeout(TIMEOUT, 9, 2).wall_ns, 5 * TIMEOUT);
    assert_int_equal(supervise_timeout(TIMEOUT, 9, 2).cpu_ns, TIMEOUT);
    assert_int_equal(supervise_timeout(TIMEOUT, 1, 0).wall_ns, TIMEOUT);
}

static struct supervise_next end_once(struct supervise_history *history, bool ready, bool refused,
                                      int64_t ran_ns) {
    struct supervise_end end = {.was_ready = ready, .refused = refused, .ran_ns = ran_ns};
    return supervise_ended(history, &end);
}

TEST(a_unit_that_served_is_started_at_once_then_later) {
    struct supervise_history history = {.quick_ends = 0};
    struct supervise_next next = end_once(&history, true, false, 100000 * MS);
    assert_false(next.gives_up);
    assert_int_equal(next.wait_ns, 0);
    next = end_once(&history, true, false, 1000 * MS);
    int64_t before = next.wait_ns;
    assert_true(before > 0);
    for (int i = 0; i < 100; i++) {
        next = end_once(&history, true, false, 1000 * MS);
        assert_false(next.gives_up);
        assert_true(next.wait_ns >= before && next.wait_ns <= 60000 * MS);
        before = next.wait_ns;
    }
    assert_int_equal(end_once(&history, true, false, 100000 * MS).wait_ns, 0); /* it was well */
    static const int64_t waits[] = {500, 1000, 2000, 4000, 8000, 16000, 30000, 30000};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
        assert_int_equal(end_once(&history, true, false, MS).wait_ns, waits[i] * MS);
}

TEST(a_unit_that_never_serves_is_given_up) {
    struct supervise_history history = {.quick_ends = 0};
    assert_true(end_once(&history, false, true, MS).gives_up); /* a wrong path stays wrong */
    history = (struct supervise_history){.quick_ends = 0};
    for (int i = 0; i < 4; i++)
        assert_false(end_once(&history, false, false, MS).gives_up);
    assert_true(end_once(&history, false, false, MS).gives_up);
    history = (struct supervise_history){.was_ever_ready = true};
    assert_false(end_once(&history, false, true, MS).gives_up); /* the disk may come back */
}

/* Of the other end of a connection. */
TEST(silence_is_reported_unless_the_listener_was_away) {
    struct supervise_hearing hearing = {.received_ns = TIMEOUT, .looked_ns = TIMEOUT};
    int64_t at = TIMEOUT;
    for (; at < 2 * TIMEOUT; at += 200 * MS)
        assert_int_equal(supervise_silence(&hearing, TIMEOUT, at), 0);
    assert_true(supervise_silence(&hearing, TIMEOUT, 2 * TIMEOUT + 1) == TIMEOUT + 1);
    assert_int_equal(supervise_silence(&hearing, TIMEOUT, 10 * TIMEOUT), 0);
    assert_int_equal(supervise_silence(&hearing, 0, 20 * TIMEOUT), 0);
    assert_true(supervise_interval_ns(TIMEOUT) == TIMEOUT / 8);
    assert_true(supervise_interval_ns(0) == 1000 * MS);
    assert_true(supervise_interval_ns(100 * TIMEOUT) == 1000 * MS);
}
