/* SPDX-License-Identifier: Apache-2.0
 * Protects a unit's board: what a rank's process writes on its line the supervisor reads, with the
 * unit's role on the first line.
 */
#include "host/process/ranks/rank_health.h"

#include <sys/wait.h>
#include <unistd.h>

#include "contract/overlap.h"
#include "test_case.h"

static char path[64];

static int make_path(void **state) {
    snprintf(path, sizeof path, "/tmp/fathom_board_XXXXXX");
    int file = mkstemp(path);
    if (file >= 0) close(file);
    return file < 0;
}

static int remove_path(void **state) {
    return unlink(path);
}

/* A rank's life in a process of its own, whose pid is returned. */
static pid_t live(uint32_t rank, enum unit_role role) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        if (rank_health_join(path, rank, NULL)) _exit(1);
        heartbeat_set(HEARTBEAT_WAITS);
        heartbeat_place(7, STAGE_MLP);
        rank_health_report_role(role);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return child;
}

TEST_AROUND(what_a_rank_writes_is_read_from_its_line, make_path, remove_path) {
    struct rank_health health;
    struct error error;
    char text[RANK_HEALTH_TEXT], pid_text[32];
    assert_int_equal(rank_health_create(path, 3, &health, &error), STATUS_OK);
    pid_t pid = live(1, UNIT_DECODE);
    assert_int_equal(health.lines[0].pid, 0);
    assert_int_equal(health.lines[1].pid, pid);
    assert_int_equal(health.lines[1].heartbeat.state, HEARTBEAT_WAITS);
    rank_health_describe(&health.lines[1], text);
    snprintf(pid_text, sizeof pid_text, "pid %d, layer 7 %s", pid, overlap_stage_name(STAGE_MLP));
    assert_non_null(strstr(text, pid_text));
    rank_health_close(&health);
}

TEST_AROUND(the_role_is_that_of_the_first_line_once_it_is_reported, make_path, remove_path) {
    struct rank_health health;
    struct error error;
    enum unit_role role;
    assert_int_equal(rank_health_create(path, 2, &health, &error), STATUS_OK);
    live(1, UNIT_DECODE);
    assert_false(rank_health_read_role(&health, &role));
    live(0, UNIT_PREFILL);
    assert_true(rank_health_read_role(&health, &role));
    assert_int_equal(role, UNIT_PREFILL);
    atomic_store(&health.lines[0].role, 99); /* another program's */
    assert_false(rank_health_read_role(&health, &role));
    rank_health_close(&health);
}

TEST_AROUND(a_rank_beyond_the_health_is_refused, make_path, remove_path) {
    struct rank_health health;
    struct error error;
    assert_int_equal(rank_health_create(path, 2, &health, &error), STATUS_OK);
    assert_int_equal(rank_health_join(path, 2, &error), STATUS_INVALID);
    assert_non_null(strstr(error.text, "no line for rank 2"));
    assert_int_equal(rank_health_join("/nowhere/board", 0, &error), STATUS_IO);
    rank_health_close(&health);
}

TEST(time_that_a_process_has_run_grows_while_it_runs) {
    int64_t before_ns = rank_health_cpu_ns(getpid());
    uint64_t run_ns = rank_health_run_ns(getpid());
    while (rank_health_cpu_ns(getpid()) == before_ns) {
    }
    assert_true(rank_health_cpu_ns(getpid()) > before_ns);
    assert_true(run_ns == 0 || rank_health_run_ns(getpid()) > run_ns); /* 0: a kernel without */
    assert_int_equal(rank_health_cpu_ns(-1), 0);
    assert_int_equal(rank_health_run_ns(-1), 0);
}
