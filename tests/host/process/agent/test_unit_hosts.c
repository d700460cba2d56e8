/* SPDX-License-Identifier: Apache-2.0
 * Protects a unit's hosts: agents are started with and without a remote shell, all hosts are
 * checked before anything is launched, every rank's end is told, and a host that is lost is named
 * and comes back. Agents and ranks are this program.
 */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/clock.h"
#include "host/process/agent/agent.h"
#include "host/process/agent/unit_hosts.h"

#define TEST_OWN_MAIN
#include "test_case.h"

static struct event_base *base;
static struct unit_hosts *hosts;
static struct supervise_host parts[2];
static struct supervise_rank ranks[3];
static struct supervise_signs signs[3];
static struct supervise_member members[3];
static struct supervise_unit unit;
static uint32_t starts, starts_on[2], given_up, unready;
static struct supervise_how how; /* of the last end before the unit was ready */
static const char *task;

static const char **on_words(void *context, const struct unit_host_start *start) {
    const char *const words[] = {"program", "rank", task, NULL};
    const char **all = malloc(sizeof words);
    starts_on[!start->is_here] += start->ranks;
    memcpy(all, words, sizeof words);
    return all;
}

static void on_report(void *context, const struct supervise_order *order) {
    starts += order->kind == SUPERVISE_SAY_STARTS;
    given_up += order->kind == SUPERVISE_GIVE_UP;
    unready += order->kind == SUPERVISE_SAY_UNREADY;
    if (order->kind == SUPERVISE_SAY_UNREADY) how = order->how;
}

static void wait_until(const uint32_t *count, uint32_t wanted) {
    while (*count < wanted) {
        unit_hosts_tick(hosts);
        event_base_loop(base, EVLOOP_NONBLOCK);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_int_equal(*count, wanted);
}

static struct unit_machines *machines;

static void start_unit(const char *model, const char *const *shell) {
    static const struct unit_host list[] = {{.name = "a", .is_here = true, .sharing = 2},
                                            {.name = "b", .sharing = 1}};
    char name[24]; /* no other's, or the agents of two would end each other */
    snprintf(name, sizeof name, "test-%d", (int)getpid());
    parts[0] = (struct supervise_host){.first = 0, .count = 2};
    parts[1] = (struct supervise_host){.first = 2, .count = 1};
    unit = (struct supervise_unit){.hosts = parts,
                                   .host_count = 2,
                                   .signs = signs,
                                   .members = members,
                                   .watch = {.ranks = ranks, .rank_count = 3}};
    struct unit_hosts_options options = {.base = base,
                                         .remote_shell = shell,
                                         .check = {.interface = "lo"},
                                         .machines = machines,
                                         .command = on_words};
    const struct unit_hosts_unit this = {
        .number = 1, .name = name, .machine = &unit, .hosts = list, .report = on_report};
    snprintf(options.check.model, sizeof options.check.model, "%s/%s", getenv("FATHOM_SOURCE"),
             model);
    starts = starts_on[0] = starts_on[1] = given_up = unready = 0;
    assert_int_equal(unit_hosts_open(&options, &this, &hosts, NULL), STATUS_OK);
    supervise_unit_start(&unit, clock_now_ns());
    unit_hosts_obey(hosts);
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

TEST_AROUND(all_ranks_are_launched_and_their_ends_reported, open_base, close_all) {
    task = "ends";
    start_unit("models/tiny-r1", shell);
    wait_until(&unready, 3); /* agents stay for the next start */
    assert_true(!how.by_signal && how.number >= 40 && how.number < 43);
    assert_true(starts >= 3 && starts_on[0] == 2 * starts_on[1]);
}

TEST_AROUND(what_hosts_lack_is_known_before_a_launch, open_base, close_all) {
    start_unit("models/nothing", shell);
    wait_until(&given_up, 1);
    assert_non_null(strstr(unit_hosts_why(hosts), "host a: /"));
    assert_non_null(strstr(unit_hosts_why(hosts), "models/nothing: no such folder"));
    assert_int_equal(starts_on[0] + starts_on[1], 0);
}

TEST_AROUND(a_machine_with_two_names_gives_its_devices_out_once, open_base, close_all) {
    static struct unit_machines known;
    machines = &known;
    start_unit("models/tiny-r1", shell);
    wait_until(&given_up, 1);
    machines = NULL;
    assert_non_null(strstr(unit_hosts_why(hosts), "host b: it is the machine that a names, too"));
    assert_int_equal(starts_on[0] + starts_on[1], 0);
}

/* Its first agent ends before it answers. */
TEST_AROUND(a_host_that_is_lost_comes_back, open_base, close_all) {
    static const char *const cut[] = {"sh", "-c",
                                      "mark=/tmp/fathom_cut_$PPID; if [ -e $mark ]; then rm $mark; "
                                      "exec \"$@\"; else : >$mark; exit 255; fi",
                                      NULL};
    task = "waits";
    start_unit("models/tiny-r1", cut);
    wait_until(&unready, 1);
    assert_string_equal(unit_hosts_why(hosts),
                        "host b: the remote shell does not reach it, or may not in");
    wait_until(&starts, 1);
    assert_int_equal(unit.state, SUPERVISE_RUNS);
    supervise_unit_stop(&unit); /* before it is ready: all are killed */
    unit_hosts_obey(hosts);
    while (supervise_unit_left(&unit))
        unit_hosts_tend(hosts);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "agent") == 0)
        return agent_run(dup(STDIN_FILENO), dup(STDOUT_FILENO), NULL) != STATUS_OK;
    if (argc > 2 && strcmp(argv[2], "waits") == 0)
        for (;;)
            pause();
    if (argc > 2) return 40 + atoi(getenv("FATHOM_RANK"));
    signal(SIGPIPE,
           SIG_IGN); /* as a supervisor's loop does: a shell that has ended takes no frame */
    return test_cases_run();
}
