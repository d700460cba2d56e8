/* SPDX-License-Identifier: Apache-2.0
 * Protects the supervisor of units: it gives up only with the last unit and says why, restarts what
 * ended and names unit, rank and pid, asks units that serve to finish and kills all others, knows
 * its own processes, and leaves neither a process nor its folder. Agents and ranks are this
 * program; a rank's task stands in its command line.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>

#include "base/heartbeat.h"
#include "host/process/agent/agent.h"
#include "host/process/agent/supervisor.h"
#include "host/process/log/log.h"

#define TEST_OWN_MAIN
#include "test_case.h"

enum { UNITS_MAX = 2, LOG_BYTES = 1 << 16 };

static struct event_base *base;
static struct supervisor *supervisor;
static const char *tasks[UNITS_MAX]; /* of each unit's ranks */
static struct unit_host_start last_start;
static char last_room[300], last_folder[300];
static uint32_t starts[UNITS_MAX], given_up;
static struct error why; /* of giving up */
static int log_file;
static char said[LOG_BYTES];
static char folder[300];

/* ---- what the supervisor asks of its owner ---- */

static const char **on_command(void *context, const struct unit_host_start *start) {
    const char *task = tasks[start->unit - 1];
    const size_t bytes = 4 * sizeof(char *), board_bytes = strlen(start->folder) + sizeof "/board";
    const char **all = malloc(bytes + board_bytes);
    assert_non_null(all);
    char *board = (char *)all + bytes;
    snprintf(board, board_bytes, "%s/board", start->folder);
    all[0] = "program";
    all[1] = task;
    all[2] = board;
    all[3] = NULL;
    last_start = *start;
    snprintf(last_room, sizeof last_room, "%s", start->room);
    snprintf(last_folder, sizeof last_folder, "%s", start->folder);
    starts[start->unit - 1]++;
    return all;
}

static void on_gave_up(void *context, const struct error *error) {
    given_up++;
    why = *error;
}

/* ---- the log ---- */

static const char *log_text(void) {
    ssize_t bytes = pread(log_file, said, sizeof said - 1, 0);
    said[bytes > 0 ? bytes : 0] = 0;
    return said;
}

/* The line with `text`, or NULL. */
static const char *find_line(const char *text) {
    return strstr(log_text(), text);
}

static uint32_t count_lines(const char *text) {
    uint32_t count = 0;
    for (const char *at = log_text(); (at = strstr(at, text)); at++)
        count++;
    return count;
}

static void turn(void) {
    event_base_loop(base, EVLOOP_NONBLOCK);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void wait_for_line(const char *text) {
    while (!find_line(text))
        turn();
}

static long number_after(const char *line, const char *name) {
    const char *at = strstr(line, name);
    assert_non_null(at);
    return strtol(at + strlen(name), NULL, 10);
}

/* True if the process has ended; what adopts it may not have waited for it yet. */
static bool has_ended(long pid) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return true;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 'Z'; /* it ended meanwhile */
    fclose(file);
    return state == 'Z' || state == 'X';
}

/* ---- opening and closing ---- */

static struct supervisor_options options_of(uint32_t units, const uint32_t *ranks,
                                            const struct host_list *hosts) {
    static const char *const shell[] = {"sh", "-c", "\"$@\"", NULL}; /* the host is its $0 */
    struct supervisor_options options = {.units = {.base = base,
                                                   .remote_shell = shell,
                                                   .check = {.interface = "lo"},
                                                   .command = on_command},
                                         .unit_count = units,
                                         .rank_counts = ranks,
                                         .hosts = hosts,
                                         .gave_up = on_gave_up};
    snprintf(options.units.check.model, sizeof options.units.check.model, "%s/models/tiny-r1",
             getenv("FATHOM_SOURCE"));
    return options;
}

static void open_with(const struct supervisor_options *options) {
    struct error error;
    if (supervisor_open(options, &supervisor, &error)) fail_msg("%s", error.text);
    snprintf(folder, sizeof folder, "%s", supervisor_folder(supervisor));
}

static void start_units(uint32_t units, uint32_t ranks, const char *first, const char *second) {
    const uint32_t counts[UNITS_MAX] = {ranks, ranks};
    const struct supervisor_options options = options_of(units, counts, NULL);
    tasks[0] = first;
    tasks[1] = second;
    open_with(&options);
    supervisor_start(supervisor);
}

static int open_all(void **state) {
    base = event_base_new();
    log_file = memfd_create("log", MFD_CLOEXEC);
    if (!base || log_file < 0) return -1;
    log_write_to(log_file);
    memset(starts, 0, sizeof starts);
    given_up = 0;
    why.text[0] = 0;
    return 0;
}

static int close_all(void **state) {
    struct stat found;
    supervisor_close(supervisor);
    supervisor = NULL;
    event_base_free(base);
    log_write_to(STDERR_FILENO);
    close(log_file);
    bool is_left = folder[0] && stat(folder, &found) == 0;
    return is_left || waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD; /* no agent is left */
}

/* ---- the cases ---- */

/* The log leaves out lines of one kind if there are many. So the cases that read how a unit starts
 * come early, and the case with an unknown number of starts is the last. */

TEST_AROUND(opening_makes_a_private_folder_and_starts_nothing, open_all, close_all) {
    const uint32_t ranks[] = {1, 3};
    struct stat found;
    const struct supervisor_options options = options_of(2, ranks, NULL);
    open_with(&options);
    assert_int_equal(stat(folder, &found), 0);
    assert_int_equal(found.st_mode & 077, 0);
    assert_int_equal(starts[0] + starts[1], 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_true(supervisor_leads_here(supervisor));
    supervisor_stop(supervisor); /* there is nothing to wait for */
}

TEST_AROUND(units_without_enough_slots_are_refused_and_nothing_is_left, open_all, close_all) {
    static char names[2][HOST_NAME_BYTES] = {"localhost", "b"};
    static uint32_t slots[2] = {2, 1};
    const struct host_list list = {names, slots, 2};
    const uint32_t ranks[] = {2, 2};
    struct error error;
    const struct supervisor_options options = options_of(2, ranks, &list);
    folder[0] = 0;
    assert_int_equal(supervisor_open(&options, &supervisor, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "too few slots for the 2 ranks of unit 2: 1 are free"));
    assert_null(supervisor);
}

TEST_AROUND(a_unit_that_leads_elsewhere_is_known, open_all, close_all) {
    static char names[2][HOST_NAME_BYTES] = {"localhost", "b"};
    static uint32_t slots[2] = {2, 1};
    const struct host_list list = {names, slots, 2};
    const uint32_t ranks[] = {2, 1};
    const struct supervisor_options options = options_of(2, ranks, &list);
    open_with(&options);
    assert_false(supervisor_leads_here(supervisor)); /* the second unit is on b */
}

/* It needs a machine on which this process may choose a name; else the case is skipped. */
TEST_AROUND(the_longest_name_of_a_machine_is_its_name, open_all, close_all) {
    pid_t child = fork();
    if (child == 0) {
        char name[65];
        memset(name, 'n', 64);
        name[64] = 0;
        if (unshare(CLONE_NEWUTS) || sethostname(name, 64)) _exit(77);
        char names[1][HOST_NAME_BYTES];
        uint32_t slots[1] = {1};
        const uint32_t ranks[] = {1};
        memcpy(names[0], name, sizeof name);
        const struct host_list list = {names, slots, 1};
        const struct supervisor_options options = options_of(1, ranks, &list);
        struct error error;
        if (supervisor_open(&options, &supervisor, &error)) _exit(1);
        bool is_here = supervisor_leads_here(supervisor);
        supervisor_close(supervisor);
        _exit(is_here ? 0 : 2);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    folder[0] = 0;
    if (WEXITSTATUS(status) == 77) skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

TEST_AROUND(a_start_on_two_hosts_says_so_and_gives_files_to_each, open_all, close_all) {
    static char names[2][HOST_NAME_BYTES] = {"localhost", "b"};
    static uint32_t slots[2] = {1, 1};
    const struct host_list list = {names, slots, 2};
    const uint32_t ranks[] = {2};
    const struct unit_host_file file = {"key", {"secret", 6}};
    char path[400], text[8] = "";
    const struct supervisor_options options = options_of(1, ranks, &list);
    tasks[0] = "serves";
    open_with(&options);
    supervisor_give_files(supervisor, &file, 1);
    supervisor_start(supervisor);
    wait_for_line("a unit is ready job=1 ");
    const char *line = find_line("starts a unit job=1 ");
    assert_int_equal(number_after(line, "ranks="), 2);
    assert_int_equal(number_after(line, "hosts="), 2);
    assert_int_equal(starts[0], 2);
    assert_true(last_start.is_spread && !last_start.is_here); /* of b, the last one */
    assert_true(supervisor_leads_here(supervisor));
    snprintf(path, sizeof path, "%s/key", last_room);
    FILE *key = fopen(path, "r");
    assert_non_null(key);
    assert_int_equal(fread(text, 1, 6, key), 6);
    fclose(key);
    assert_string_equal(text, "secret");
}

TEST_AROUND(a_unit_is_known_by_the_pids_of_its_ranks, open_all, close_all) {
    start_units(2, 2, "serves", "serves");
    wait_for_line("a unit is ready job=1 ");
    wait_for_line("a unit is ready job=2 ");
    const char *line = find_line("starts a unit job=2 ");
    assert_int_equal(number_after(line, "ranks="), 2);
    long pid = number_after(find_line("a unit is ready job=2 "), "pid=");
    assert_true(pid > 0 && pid != number_after(find_line("a unit is ready job=1 "), "pid="));
    assert_int_equal(supervisor_job_of(supervisor, pid), 2);
    assert_int_equal(supervisor_job_of(supervisor, getpid()), 0);
    assert_int_equal(supervisor_job_of(supervisor, 0), 0); /* as a rank before its start */
    assert_int_equal(supervisor_job_of(supervisor, -1), 0);
    assert_int_equal(given_up, 0);
}

TEST_AROUND(units_that_are_not_ready_are_killed_at_the_end, open_all, close_all) {
    start_units(2, 2, "starts", "starts");
    wait_for_line("starts a unit job=1 ");
    wait_for_line("starts a unit job=2 ");
    long pid = number_after(find_line("starts a unit job=2 "), "pid=");
    supervisor_stop(supervisor);
    assert_true(has_ended(pid));
    assert_int_equal(starts[0] + starts[1], 2);
    assert_null(find_line("a unit ended"));
    assert_int_equal(given_up, 0);
}

TEST_AROUND(a_unit_that_refuses_is_given_up_with_the_way_it_ended, open_all, close_all) {
    start_units(1, 1, "refuses", NULL);
    while (!given_up)
        turn();
    assert_string_equal(why.text, "unit 1 could not be started: it ended with status 2 before it "
                                  "was ready");
    assert_int_equal(starts[0], 1);
    for (uint32_t i = 0; i < 50; i++)
        turn();
    assert_int_equal(given_up, 1);
    assert_int_equal(starts[0], 1);
}

TEST_AROUND(what_a_host_lacks_is_the_reason_to_give_up, open_all, close_all) {
    const uint32_t ranks[] = {1};
    struct supervisor_options options = options_of(1, ranks, NULL);
    snprintf(options.units.check.model, sizeof options.units.check.model, "%s/models/nothing",
             getenv("FATHOM_SOURCE"));
    open_with(&options);
    supervisor_start(supervisor);
    while (!given_up)
        turn();
    assert_non_null(strstr(why.text, "unit 1 could not be started: host "));
    assert_non_null(strstr(why.text, "models/nothing: no such folder"));
    assert_int_equal(starts[0], 0);
}

TEST_AROUND(only_the_last_unit_that_is_given_up_ends_all, open_all, close_all) {
    start_units(2, 1, "serves", "refuses");
    wait_for_line("a unit is given up, others are left job=2 left=1 why=\"unit 2 could not be "
                  "started: it ended with status 2");
    wait_for_line("a unit is ready job=1 ");
    assert_int_equal(given_up, 0);
    supervisor_close(supervisor);
    start_units(2, 1, "refuses", "refuses");
    while (!given_up)
        turn();
    assert_int_equal(given_up, 1);
    assert_int_equal(count_lines("a unit is given up, others are left job="), 2);
    assert_non_null(strstr(why.text, "could not be started: it ended with status 2"));
}

TEST_AROUND(a_unit_that_ends_before_it_is_ready_starts_again, open_all, close_all) {
    start_units(1, 1, "fails", NULL);
    wait_for_line("a unit ended before it was ready, it starts again job=1 how=\"status 41\"");
    while (starts[0] < 2)
        turn();
    assert_int_equal(given_up, 0);
}

TEST_AROUND(a_unit_that_ends_while_it_serves_is_there_again, open_all, close_all) {
    start_units(1, 1, "serves", NULL);
    wait_for_line("a unit is ready job=1 ");
    long pid = number_after(find_line("a unit is ready job=1 "), "pid=");
    assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
    wait_for_line("a unit ended, it starts again job=1 how=\"signal 9\"");
    wait_for_line("a unit is there again job=1 ");
    long next = number_after(find_line("a unit is there again job=1 "), "pid=");
    assert_int_not_equal(next, pid);
    assert_int_equal(supervisor_job_of(supervisor, next), 1);
    assert_int_equal(supervisor_job_of(supervisor, pid), 0);
    assert_int_equal(given_up, 0);
}

TEST_AROUND(the_first_rank_that_dies_takes_its_unit_along_and_is_named, open_all, close_all) {
    start_units(1, 2, "serves", NULL);
    wait_for_line("a unit is ready job=1 ");
    long pid = number_after(find_line("a unit is ready job=1 "), "pid=");
    kill((pid_t)pid, SIGKILL);
    wait_for_line("a rank died, its unit starts again job=1 rank=0 where=");
    wait_for_line("a unit is there again job=1 ");
}

TEST_AROUND(a_unit_that_serves_is_asked_to_finish, open_all, close_all) {
    char path[400];
    start_units(1, 1, "serves", NULL);
    wait_for_line("a unit is ready job=1 ");
    long pid = number_after(find_line("a unit is ready job=1 "), "pid=");
    snprintf(path, sizeof path, "%s/board.finished", last_folder);
    supervisor_stop(supervisor);
    assert_int_equal(unlink(path), 0); /* its rank wrote that it was asked */
    assert_true(has_ended(pid));
    assert_null(find_line("a unit ended"));
    assert_int_equal(given_up, 0);
}

TEST_AROUND(units_that_run_are_killed_with_the_supervisor, open_all, close_all) {
    start_units(1, 2, "serves", NULL);
    wait_for_line("a unit is ready job=1 ");
    long pid = number_after(find_line("a unit is ready job=1 "), "pid=");
    supervisor_close(supervisor);
    supervisor = NULL;
    while (!has_ended(pid)) /* it dies with its agent */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Each start freezes itself: a busy machine may restart the unit for another reason first. */
TEST_AROUND(a_unit_that_is_not_run_any_more_starts_again, open_all, close_all) {
    const uint32_t ranks[] = {1};
    struct supervisor_options options = options_of(1, ranks, NULL);
    options.rank_timeout_ns = 400000000;
    tasks[0] = "freezes";
    open_with(&options);
    supervisor_start(supervisor);
    wait_for_line("a rank was not run, its unit starts again job=1 rank=0 silent_s=");
    while (starts[0] < 2)
        turn();
    assert_int_equal(given_up, 0);
}

/* ---- the ranks ---- */

static volatile sig_atomic_t is_asked;

static void on_term(int number) {
    is_asked = 1;
}

static void finish(const char *board) {
    char path[400];
    snprintf(path, sizeof path, "%s.finished", board);
    int file = open(path, O_CREAT | O_WRONLY, 0600);
    if (file >= 0) close(file);
}

static int be_rank(const char *task, const char *board) {
    struct error error;
    struct sigaction term = {.sa_handler = on_term};
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    sigaction(SIGTERM, &term, NULL);
    if (!strcmp(task, "refuses")) return 2;
    if (!strcmp(task, "fails")) return 41;
    if (rank_health_join(board, (uint32_t)atoi(getenv("FATHOM_RANK")), &error)) return 42;
    if (strcmp(task, "starts") != 0) heartbeat_set(HEARTBEAT_IDLE);
    if (!strcmp(task, "freezes")) raise(SIGSTOP);
    while (!is_asked)
        sigsuspend(&before);
    finish(board);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "agent") == 0)
        return agent_run(dup(STDIN_FILENO), dup(STDOUT_FILENO), NULL) != STATUS_OK;
    if (argc > 2) return be_rank(argv[1], argv[2]);
    signal(SIGPIPE, SIG_IGN); /* as a supervisor's loop does */
    return test_cases_run();
}
