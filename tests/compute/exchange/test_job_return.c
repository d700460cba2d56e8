/* SPDX-License-Identifier: Apache-2.0
 * Protects job_regroup when a rank dies and comes back. Rank 1 of three is killed and started
 * again. The other two find the job broken, regroup without it and exchange messages. When it is
 * back all three regroup, agree on the epoch and the living ranks, and exchange messages again. No
 * message of an earlier epoch arrives.
 */
#define TEST_OWN_MAIN
#include "test_case.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/check.h"
#include "compute/exchange/job.h"
#include "host/process/ranks/rank_launch.h"

enum { RANKS = 3, MORTAL = 1, LAUNCHES = 4, LAST_EPOCH = 2 };

/* ---- a rank ---- */

static void wait_until_broken(void) {
    while (!job_poll())
        job_sleep(1000000);
}

/* All living ranks know the same epoch and the same ranks; a message of each reaches each other
 * one. */
static void expect_epoch(uint32_t epoch, uint32_t count) {
    uint32_t out[RANKS], in[RANKS] = {0}, own;
    const uint32_t *alive;
    check(!job_broken() && job_epoch() == epoch);
    check(job_alive_ranks(&alive, &own) == count && alive[own] == job_rank());
    check(job_is_alive(MORTAL) == (count == RANKS));
    for (uint32_t rank = 0; rank < RANKS; rank++)
        out[rank] = epoch * 100 + job_rank() * 10 + rank;
    job_all_to_all((const char *)out, (char *)in, sizeof *in);
    if (job_broken() && epoch < LAST_EPOCH) return; /* the next change came before all messages */
    for (uint32_t i = 0; i < count; i++)
        check(alive[i] == job_rank() || in[alive[i]] == epoch * 100 + alive[i] * 10 + job_rank());
}

/* The next change may be reported together with the end of a regrouping. */
static void regroup(void) {
    do
        job_regroup();
    while (job_broken());
}

static int be_rank(void) {
    static uint32_t late;
    struct error error;
    struct job_batch batch = {0};
    if (job_begin(&error)) return 2;
    if (job_rejoins()) {
        check(job_rank() == MORTAL);
    } else {
        expect_epoch(0, RANKS);
        if (job_rank() == MORTAL) raise(SIGKILL);
        job_receive_begin(&batch, JOB_CHANNEL_ACTIVATIONS, 7, MORTAL, &late, sizeof late);
        wait_until_broken();
        job_wait(&batch); /* does not wait: the job is broken */
        regroup();
        if (job_epoch() == 1) { /* else the rank was back before this one regrouped */
            expect_epoch(1, RANKS - 1);
            wait_until_broken();
            regroup();
        }
    }
    expect_epoch(LAST_EPOCH, RANKS);
    job_barrier();
    check(late == 0);
    job_end();
    return 0;
}

/* ---- the launcher ---- */

struct launched {
    uint32_t killed, failed;
};

static void on_ended(void *context, uint32_t rank, int status) {
    struct launched *all = context;
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && rank == MORTAL;
    all->killed += killed;
    all->failed += status != 0 && !killed;
}

static void launch(void) {
    char self[RANK_LAUNCH_PATH_BYTES];
    struct error error;
    struct rank_launch *ranks;
    struct launched all = {0};
    const char *const arguments[] = {self, NULL};
    const struct rank_launch_options options = {
        .arguments = arguments, .count = RANKS, .total = RANKS, .context = &all, .ended = on_ended};
    bool restarted = false;
    assert_true(rank_launch_self(self));
    assert_false(rank_launch_open(&options, &ranks, &error));
    struct pollfd file = {rank_launch_file(ranks), POLLIN, 0};
    while (rank_launch_left(ranks) && !all.failed) {
        poll(&file, 1, 10);
        rank_launch_tend(ranks);
        if (!all.killed || restarted) continue;
        assert_false(rank_launch_again(ranks, MORTAL, &error));
        restarted = true;
    }
    rank_launch_close(ranks);
    assert_int_equal(all.failed, 0);
    assert_int_equal(all.killed, 1);
}

TEST(a_rank_that_comes_back_joins_the_others) {
    for (uint32_t i = 0; i < LAUNCHES; i++)
        launch();
}

int main(void) {
    return job_exists() ? be_rank() : test_cases_run();
}
