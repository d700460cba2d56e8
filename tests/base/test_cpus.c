/* SPDX-License-Identifier: Apache-2.0
 * Protects the number of CPUs: a quota is rounded up and never raises it; and looks at threads of
 * other processes: one that computes has a CPU, one that is stopped has none, and a trade leaves
 * both with all CPUs.
 */
#include "base/cpus.h"
#include "test_case.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(a_quota_is_rounded_up) {
    assert_int_equal(cpus_of_quota("150000 100000\n", 8), 2);
    assert_int_equal(cpus_of_quota("200000 100000\n", 8), 2);
    assert_int_equal(cpus_of_quota("200001 100000\n", 8), 3);
    assert_int_equal(cpus_of_quota("1000 100000", 8), 1);
}

TEST(a_quota_never_raises_the_number) {
    assert_int_equal(cpus_of_quota("900000 100000", 2), 2);
    assert_int_equal(cpus_of_quota("1e300 1", 2), 2);
}

TEST(without_a_quota_all_are_usable) {
    static const char *const none[] = {"max 100000\n", "-1\n 100000\n", "",
                                       "100000",       "100000 0",      "nan nan"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(cpus_of_quota(none[i], 4), 4);
}

TEST(there_is_one_at_least) {
    assert_true(cpus_usable() >= 1);
}

static pid_t child_that_computes(void) {
    pid_t child = fork();
    while (child == 0)
        continue;
    assert_true(child > 0);
    return child;
}

static cpu_set_t allowed;

static void assert_all_allowed(pid_t thread) {
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(thread, sizeof set, &set), 0);
    assert_true(CPU_EQUAL(&set, &allowed));
}

TEST(a_thread_that_computes_has_a_cpu) {
    sched_getaffinity(0, sizeof allowed, &allowed);
    pid_t child = child_that_computes();
    int running = 0;
    for (int i = 0; i < 200 && !running; i++) { /* on a busy machine it waits now and then */
        usleep(1000);
        running = cpus_is_running(child);
    }
    assert_true(running);
    assert_int_equal(kill(child, SIGSTOP), 0);
    assert_int_equal(waitpid(child, NULL, WUNTRACED), child);
    assert_false(cpus_is_running(child));
    assert_all_allowed(child);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_true(cpus_is_running(child)); /* unknown */
}

TEST(a_trade_leaves_both_with_all_cpus) {
    sched_getaffinity(0, sizeof allowed, &allowed);
    pid_t child = child_that_computes();
    int here = sched_getcpu(), there = here ? 0 : 1;
    assert_false(cpus_trade(child, here));
    if (CPU_ISSET(here, &allowed) && CPU_ISSET(there, &allowed))
        assert_true(cpus_trade(child, there));
    assert_all_allowed(child);
    assert_all_allowed(0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_false(cpus_trade(child, there));
    assert_all_allowed(0);
}
