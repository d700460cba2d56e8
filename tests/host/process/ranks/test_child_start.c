/* SPDX-License-Identifier: Apache-2.0
 * Protects what every started process relies on: it does not outlive who started it, hears no Ctrl-C
 * of that one's terminal, and inherits none of its blocked or ignored signals.
 */
#include "host/process/ranks/child_start.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"

/* The exit code of a child that was told of this parent. */
static int settle_under(pid_t parent) {
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
        int last_signal = 0;
        sigset_t blocked;
        struct sigaction pipe;
        child_start_settle(parent);
        prctl(PR_GET_PDEATHSIG, &last_signal);
        sigprocmask(SIG_SETMASK, NULL, &blocked);
        sigaction(SIGPIPE, NULL, &pipe);
        _exit(getpgrp() != getpid()            ? 1
              : last_signal != SIGKILL         ? 2
              : sigismember(&blocked, SIGTERM) ? 3
              : pipe.sa_handler != SIG_DFL     ? 4
                                               : 0);
    }
    int status;
    check(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_child_ends_with_its_parent_and_has_nothing_of_its_signals(void **state) {
    (void)state;
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGTERM);
    sigprocmask(SIG_BLOCK, &some, NULL);
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(settle_under(getpid()), 0);
}

static void a_child_whose_parent_has_gone_already_does_not_begin(void **state) {
    (void)state;
    assert_int_equal(settle_under(getpid() + 1), CHILD_START_LATE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_ends_with_its_parent_and_has_nothing_of_its_signals),
        cmocka_unit_test(a_child_whose_parent_has_gone_already_does_not_begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
