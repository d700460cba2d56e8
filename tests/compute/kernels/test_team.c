/* SPDX-License-Identifier: Apache-2.0
 * Protects the thread team: every item of every loop runs exactly once, in shares no larger than
 * the grain, all of them before team_run returns; more threads than CPUs work, members sleep when
 * idle, and where others want the CPUs threads change places and may run where they could before.
 */
#include "test_case.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "compute/kernels/team.h"

#define ITEMS_MAX 1000

struct ledger {
    uint32_t grain, threads;
    bool slow; /* members dawdle, the caller does not: it must wait for them */
    _Atomic uint32_t bad_shares, bad_members;
    uint32_t runs[ITEMS_MAX]; /* plain on purpose: team_run must order these writes (TSan looks) */
};

static void note(void *context, uint32_t first, uint32_t count, uint32_t member) {
    struct ledger *ledger = context;
    if (count == 0 || count > ledger->grain) atomic_fetch_add(&ledger->bad_shares, 1);
    if (member >= ledger->threads) atomic_fetch_add(&ledger->bad_members, 1);
    if (ledger->slow && member) {
        struct timespec pause = {0, 200000};
        nanosleep(&pause, NULL);
    }
    for (uint32_t i = first; i < first + count; i++)
        ledger->runs[i]++;
}

static void run_loops(uint32_t threads, uint32_t loops) {
    struct team *team;
    struct error error;
    assert_int_equal(team_open(threads, &team, &error), STATUS_OK);
    assert_int_equal(team_threads(team), threads);
    static struct ledger ledger;
    memset(&ledger, 0, sizeof ledger);
    ledger.threads = threads;
    for (uint32_t loop = 0; loop < loops; loop++) {
        uint32_t count = loop * 37 % (ITEMS_MAX + 1);
        ledger.grain = 1 + loop % 9;
        ledger.slow = loop % 16 == 15;
        memset(ledger.runs, 0, sizeof ledger.runs);
        team_run(team, note, &ledger, count, ledger.grain);
        for (uint32_t i = 0; i < ITEMS_MAX; i++)
            assert_int_equal(ledger.runs[i], i < count);
        if (loop % 64 == 63) { /* long enough for members to fall asleep */
            struct timespec pause = {0, 300000};
            nanosleep(&pause, NULL);
        }
    }
    assert_int_equal(ledger.bad_shares, 0);
    assert_int_equal(ledger.bad_members, 0);
    team_close(team);
}

TEST(every_item_runs_once) {
    run_loops(1, 500);
    run_loops(2, 2000);
}

TEST(more_threads_than_cpus_lose_nothing) {
    run_loops(17, 300);
}

static _Atomic bool competes;

static void *compete(void *argument) {
    while (atomic_load(&competes))
        continue;
    return argument;
}

TEST(a_busy_machine_changes_nothing) {
    pthread_t others[2];
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    atomic_store(&competes, true);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&others[i], NULL, compete, NULL), 0);
    run_loops(2, 4000);
    atomic_store(&competes, false);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_join(others[i], NULL), 0);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

struct shares { /* of a loop of even items */
    _Atomic uint32_t runs[ITEMS_MAX], ragged;
    uint32_t grain, end;
};

static void note_share(void *context, uint32_t first, uint32_t count, uint32_t member) {
    struct shares *shares = context;
    if (count == 0 || (count % shares->grain && first + count != shares->end))
        atomic_fetch_add(&shares->ragged, 1);
    for (uint32_t i = first; i < first + count; i++)
        atomic_fetch_add(&shares->runs[i], 1);
}

TEST(even_items_run_once_in_whole_grains) {
    static struct shares shares;
    for (uint32_t threads = 1; threads <= 5; threads += 2) {
        struct team *team;
        assert_int_equal(team_open(threads, &team, NULL), STATUS_OK);
        for (uint32_t loop = 0; loop < 300; loop++) {
            memset(&shares, 0, sizeof shares);
            shares.end = loop * 37 % (ITEMS_MAX + 1);
            shares.grain = 1 + loop % 4;
            team_run_even(team, note_share, &shares, shares.end, shares.grain);
            for (uint32_t i = 0; i < ITEMS_MAX; i++)
                assert_int_equal(shares.runs[i], i < shares.end);
            assert_int_equal(shares.ragged, 0);
        }
        team_close(team);
    }
}

TEST(the_default_is_one_thread_a_cpu) {
    struct team *team;
    assert_int_equal(team_open(0, &team, NULL), STATUS_OK);
    assert_true(team_threads(team) >= 1);
    team_close(team);
}

TEST(too_many_threads_are_refused) {
    struct team *team;
    struct error error;
    assert_int_equal(team_open(1000000, &team, &error), STATUS_TOO_LARGE);
    assert_non_null(strstr(error.text, "1000000"));
}

static double cpu_seconds_of_a_pause(void) {
    struct timespec pause = {0, 200000000}, before, after;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    nanosleep(&pause, NULL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    return (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
}

/* On a busy machine the members may be late to begin, and to end, their spinning. */
TEST(an_idle_team_burns_no_cpu) {
    struct team *team;
    assert_int_equal(team_open(4, &team, NULL), STATUS_OK);
    bool idle = false;
    for (int i = 0; i < 100 && !idle; i++)
        idle = cpu_seconds_of_a_pause() < 0.05;
    team_close(team);
    assert_true(idle);
}
