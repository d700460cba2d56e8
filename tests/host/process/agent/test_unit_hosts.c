/* SPDX-License-Identifier: Apache-2.0
 * Protects a unit's hosts: agents are started with and without a remote shell, all hosts are checked
 * before anything is launched, every rank's end is told, and a host that is lost is named and comes
 * back. Agents and ranks are this program.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <event2/event.h>

#include "base/clock.h"
#include "host/process/agent/agent.h"
#include "host/process/agent/unit_hosts.h"

static struct event_base *base;
static struct unit_hosts *hosts;
static uint32_t checks, ends, losses, starts_on[2];
static int statuses[3];
static uint32_t lost_host;
static char lacks[512];
static const char *task;

static void on_checked(void *context, const struct error *error) {
    checks++;
    snprintf(lacks, sizeof lacks, "%s", error ? error->text : "");
}

static const char **on_words(void *context, const struct unit_host_start *start) {
    const char *const words[] = {"program", "rank", task, NULL};
    const char **all = malloc(sizeof words);
    starts_on[start->host] += start->ranks;
    memcpy(all, words, sizeof words);
    return all;
}

static bool on_sign(void *context, uint32_t number, uint32_t rank,
                    const struct supervise_signs *signs) {
    return true;
}

static void on_ended(void *context, uint32_t number, uint32_t rank, int status) {
    ends++;
    statuses[rank] = status;
}

static void on_lost(void *context, uint32_t host, const char *why) {
    losses++;
    lost_host = host;
}

static void wait_until(const uint32_t *count, uint32_t wanted) {
    while (*count < wanted) {
        unit_hosts_tick(hosts, clock_now_ns());
        event_base_loop(base, EVLOOP_NONBLOCK);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_int_equal(*count, wanted);
}

static void open_hosts(const char *model, const char *const *shell) {
    const struct unit_host list[] = {
        {.name = "a", .is_here = true, .first = 0, .count = 2, .sharing = 2},
        {.name = "b", .first = 2, .count = 1, .sharing = 1}};
    char name[24]; /* no other's, or the agents of two would end each other */
    snprintf(name, sizeof name, "test-%d", (int)getpid());
    struct unit_hosts_options options = {.base = base,
                                         .name = name,
                                         .hosts = list,
                                         .host_count = 2,
                                         .rank_count = 3,
                                         .remote_shell = shell,
                                         .check = {.interface = "lo"},
                                         .checked = on_checked,
                                         .words = on_words,
                                         .sign = on_sign,
                                         .ended = on_ended,
                                         .lost = on_lost};
    snprintf(options.check.model, sizeof options.check.model, "%s/%s", getenv("FATHOM_SOURCE"),
             model);
    checks = ends = losses = starts_on[0] = starts_on[1] = 0;
    assert_int_equal(unit_hosts_open(&options, &hosts, NULL), STATUS_OK);
}

static const char *const shell[] = {"sh", "-c", "\"$@\"", NULL}; /* b is its $0 */

static int open_base(void **state) {
    base = event_base_new();
    return base ? 0 : -1;
}

static int close_all(void **state) {
    unit_hosts_close(hosts);
    event_base_free(base);
    return 0;
}

static void all_ranks_are_launched_and_their_ends_reported(void **state) {
    open_hosts("models/tiny-r1", shell);
    for (uint32_t start = 1; start <= 2; start++) { /* agents stay for the second */
        task = "ends";
        unit_hosts_check(hosts);
        wait_until(&checks, start);
        assert_string_equal(lacks, "");
        assert_int_equal(unit_hosts_launch(hosts, start, NULL), STATUS_OK);
        wait_until(&ends, 3 * start);
        for (int rank = 0; rank < 3; rank++)
            assert_true(WIFEXITED(statuses[rank]) && WEXITSTATUS(statuses[rank]) == 40 + rank);
    }
    assert_int_equal(starts_on[0], 4);
    assert_int_equal(starts_on[1], 2);
}

static void what_hosts_lack_is_known_before_a_launch(void **state) {
    open_hosts("models/nothing", shell);
    unit_hosts_check(hosts);
    wait_until(&checks, 1);
    assert_non_null(strstr(lacks, "host a: model "));
    assert_non_null(strstr(lacks, "models/nothing is not there"));
    unit_hosts_check(hosts); /* they are asked again */
    wait_until(&checks, 2);
    assert_non_null(strstr(lacks, "is not there"));
}

static void a_host_that_is_lost_comes_back(void **state) {
    static const char *const cut[] = {"sh", "-c",
                                      "mark=/tmp/fathom_cut_$PPID; if [ -e $mark ]; then rm $mark; "
                                      "exec \"$@\"; else : >$mark; exit 255; fi",
                                      NULL};
    open_hosts("models/tiny-r1", cut);
    unit_hosts_check(hosts);
    wait_until(&losses, 1);
    assert_int_equal(lost_host, 1);
    task = "waits";
    unit_hosts_check(hosts);
    wait_until(&checks, 1);
    assert_int_equal(unit_hosts_launch(hosts, 1, NULL), STATUS_OK);
    unit_hosts_signal(hosts, 2, SIGKILL);
    wait_until(&ends, 1);
    assert_true(WIFSIGNALED(statuses[2]));
    unit_hosts_signal(hosts, AGENT_ALL_RANKS, SIGKILL);
    wait_until(&ends, 3);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_ranks_are_launched_and_their_ends_reported, open_base,
                                        close_all),
        cmocka_unit_test_setup_teardown(what_hosts_lack_is_known_before_a_launch, open_base,
                                        close_all),
        cmocka_unit_test_setup_teardown(a_host_that_is_lost_comes_back, open_base, close_all),
    };
    if (argc > 1 && strcmp(argv[1], "agent") == 0)
        return agent_run(dup(STDIN_FILENO), dup(STDOUT_FILENO), NULL) != STATUS_OK;
    if (argc > 2 && strcmp(argv[2], "waits") == 0)
        for (;;)
            pause();
    if (argc > 2) return 40 + atoi(getenv("FATHOM_RANK"));
    signal(SIGPIPE,
           SIG_IGN); /* as a supervisor's loop does: a shell that has ended takes no frame */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
