/* SPDX-License-Identifier: Apache-2.0
 * Protects check(): what holds costs nothing, what does not ends the process and says what and
 * where, to the line.
 */
#include "base/check.h"

#include "test_case.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(what_does_not_hold_ends_the_process_and_is_named) {
    char said[200] = "", expected[200];
    int ends[2], status, one = 1;
    check(one == 1);
    assert_int_equal(pipe(ends), 0);
    snprintf(expected, sizeof expected, "fathom: bug: check failed: one == 2 at %s:%d\n", __FILE__,
             __LINE__ + 5);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], 2);
        check(one == 2);
        _exit(0);
    }
    close(ends[1]);
    for (size_t used = 0; used < sizeof said - 1;) {
        ssize_t count = read(ends[0], said + used, sizeof said - 1 - used);
        if (count <= 0) break;
        used += (size_t)count;
    }
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_memory_equal(said, expected, strlen(expected)); /* a sanitizer may say more */
}
