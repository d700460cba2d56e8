/* SPDX-License-Identifier: Apache-2.0
 * The main function of a test that all ranks of a job run. `test_name RANKS [HOSTS [MORE]]`
 * launches the ranks; rank 0 prints the results. HOSTS divides the ranks among that many simulated
 * hosts. MORE is an argument of the test itself.
 *
 * A rank that fails ends the other ranks, except for on_ranks_deaths ranks that the test kills. It
 * ends at its first failed assertion, which it prints to stderr. Otherwise it would run its next
 * case while other ranks still wait for it in this one.
 *
 * Include it after test_case.h.
 */
#pragma once

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "compute/exchange/job.h"
#include "compute/exchange/job_rendezvous.h"
#include "host/process/ranks/rank_launch.h"

struct on_ranks {
    struct rank_launch *launch;
    uint32_t deaths; /* that may still come */
    int failed;
};

static uint32_t on_ranks_deaths;

static inline void on_ranks_ended(void *context, uint32_t rank, int status) {
    struct on_ranks *all = context;
    if (status == SIGKILL && all->deaths && !all->failed) {
        all->deaths--;
        return;
    }
    const char *line = all->failed ? "" : "\n"; /* cmocka ends no line before it aborts */
    if (status) fprintf(stderr, "%srank %u ended with status %#x\n", line, rank, (unsigned)status);
    if (status && !all->failed++) rank_launch_signal_all(all->launch, SIGKILL);
}

static inline int on_ranks_launch(char **argv) {
    char self[RANK_LAUNCH_PATH_BYTES];
    struct error error;
    uint32_t count = (uint32_t)strtoul(argv[1], NULL, 10);
    struct on_ranks all = {.deaths = on_ranks_deaths};
    const char *const arguments[] = {self, argv[1], argv[2], argv[2] ? argv[3] : NULL, NULL};
    const struct rank_launch_options options = {.arguments = arguments,
                                                .count = count,
                                                .total = count,
                                                .speaks = true,
                                                .context = &all,
                                                .ended = on_ranks_ended};
    if (!rank_launch_self(self) || rank_launch_open(&options, &all.launch, &error)) return 1;
    struct pollfd file = {rank_launch_file(all.launch), POLLIN, 0};
    while (rank_launch_left(all.launch)) {
        poll(&file, 1, -1);
        rank_launch_tend(all.launch);
    }
    rank_launch_close(all.launch);
    return all.failed != 0;
}

static inline void on_ranks_choose_host(char **argv) {
    uint32_t count = (uint32_t)strtoul(argv[1], NULL, 10);
    uint32_t hosts = (uint32_t)strtoul(argv[2], NULL, 10);
    char name[16];
    snprintf(name, sizeof name, "host%u", job_rank_assigned() / (count / hosts));
    setenv(JOB_RENDEZVOUS_HOST, name, 1);
}

static inline int on_ranks(char **argv, const char *name, const struct CMUnitTest *tests,
                           size_t count) {
    struct error error;
    if (!job_exists()) return on_ranks_launch(argv);
    if (argv[2]) on_ranks_choose_host(argv);
    if (job_begin(&error) != STATUS_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    if (job_rank() && !freopen("/dev/null", "w", stdout)) return 1;
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    int failed = _cmocka_run_group_tests(name, tests, count, NULL, NULL);
    if (!failed) job_end(); /* the others may be in a step, and never come to the end */
    return failed;
}
