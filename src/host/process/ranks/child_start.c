/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/ranks/child_start.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

void child_start_settle(pid_t parent) {
    sigset_t none;
    setpgid(0, 0); /* a terminal's Ctrl-C comes to who started it alone */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(CHILD_START_LATE);
    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}
