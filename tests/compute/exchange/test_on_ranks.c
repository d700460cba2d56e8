/* SPDX-License-Identifier: Apache-2.0
 * Protects tests that all ranks run from waiting for a rank that failed: a rank with a failed
 * assertion, or one that crashes, ends all ranks at once, and its message is printed. The program
 * launches itself as such a test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "compute/exchange/job.h"
#include "on_ranks.h"

#define RANKS "3"
#define WAYS_TO_FAIL "FATHOM_TEST_WAY" /* what the ranks find in their environment */

static char said[1 << 16];
static int status;

/* ---- the ranks ---- */

static void rank_fails_where_others_wait(void **state) {
    const char *way = getenv(WAYS_TO_FAIL);
    check(way);
    signal(SIGABRT, SIG_DFL); /* a sanitizer would tell of the failure that is meant */
    uint32_t who = (uint32_t)way[1] - '0', word = 0;
    job_barrier();
    if (job_rank() != who) {
        job_receive(who, &word, sizeof word);
        return;
    }
    if (way[0] == 'a') assert_string_equal("what rank said", "what was expected");
    if (way[0] == 's') raise(SIGSEGV); /* cmocka takes it for a failure of the case */
    for (uint32_t rank = 0; rank < job_count(); rank++)
        if (rank != who) job_send(rank, &word, sizeof word);
}

static void all_go_on_together(void **state) {
    job_barrier();
}

/* ---- who launches them ---- */

static void run(const char *self, const char *way) {
    int ends[2];
    size_t bytes = 0;
    ssize_t got;
    check(pipe(ends) == 0);
    pid_t child = fork();
    check(child >= 0);
    if (!child) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        setenv(WAYS_TO_FAIL, way, 1);
        setenv("CMOCKA_MESSAGE_OUTPUT", "TAP", 1);
        execl(self, self, RANKS, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    while ((got = read(ends[0], said + bytes, sizeof said - 1 - bytes)) > 0)
        bytes += (size_t)got;
    said[bytes] = 0;
    close(ends[0]);
    check(waitpid(child, &status, 0) == child);
    fputs(said, stderr); /* stdout has this test's own lines alone */
}

static const char *self;

static void ranks_that_all_pass_say_so(void **state) {
    run(self, "n0");
    assert_int_equal(status, 0);
    assert_non_null(strstr(said, "ok 2 - all_go_on_together"));
    assert_null(strstr(said, "ended with status"));
}

/* Of the others nothing is asked but that they end: one may go on until it is killed. */
static void ends(const char *way, const char *what) {
    run(self, way);
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_non_null(strstr(said, what));
    char rank[32];
    snprintf(rank, sizeof rank, "rank %c ended with status", way[1]);
    assert_non_null(strstr(said, rank));
}

static void an_assertion_of_the_rank_that_speaks_ends_all(void **state) {
    ends("a0", "\"what rank said\" != \"what was expected\"");
}

static void an_assertion_of_another_rank_ends_all_and_is_shown(void **state) {
    ends("a2", "\"what rank said\" != \"what was expected\"");
}

#ifndef __SANITIZE_THREAD__ /* which ends a process whose handler of a signal allocates, as cmocka's does */
static void a_crash_of_another_rank_ends_all_and_is_shown(void **state) {
    ends("s1", "Segmentation fault");
}
#endif

int main(int argc, char **argv) {
    const struct CMUnitTest of_ranks[] = {
        cmocka_unit_test(rank_fails_where_others_wait),
        cmocka_unit_test(all_go_on_together),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_all_pass_say_so),
        cmocka_unit_test(an_assertion_of_the_rank_that_speaks_ends_all),
        cmocka_unit_test(an_assertion_of_another_rank_ends_all_and_is_shown),
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(a_crash_of_another_rank_ends_all_and_is_shown),
#endif
    };
    if (argc > 1) return on_ranks(argv, "on_ranks", of_ranks, ARRAY_COUNT(of_ranks));
    self = argv[0];
    return cmocka_run_group_tests_name("on_ranks", tests, NULL, NULL);
}
