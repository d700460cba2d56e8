/* SPDX-License-Identifier: Apache-2.0
 * Protects a host from two agents of one unit: the later one ends the earlier, also one that is
 * stopped, and agents of other units are left alone.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/process/agent/agent_lock.h"
#include "host/process/private_room.h"

#include "test_case.h"

static char directory[] = "/tmp/fathom_lock_XXXXXX";

static int make_directory(void **state) {
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state) {
    private_room_remove(directory);
    return 0;
}

/* A process that holds the lock until it is killed. */
static pid_t hold(const char *unit) {
    int reported[2];
    char byte;
    assert_int_equal(pipe(reported), 0);
    pid_t child = fork();
    if (child == 0) {
        struct agent_lock lock;
        bool was_held;
        if (agent_lock_take(directory, unit, &lock, &was_held, NULL)) _exit(1);
        if (write(reported[1], "x", 1) != 1) _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(reported[0], &byte, 1), 1);
    close(reported[0]);
    close(reported[1]);
    return child;
}

TEST(the_later_agent_ends_the_earlier) {
    for (int stopped = 0; stopped < 2; stopped++) {
        struct agent_lock lock;
        bool was_held;
        int status;
        pid_t other = hold("v"), child = hold("u");
        if (stopped) kill(child, SIGSTOP);
        assert_int_equal(agent_lock_take(directory, "u", &lock, &was_held, NULL), STATUS_OK);
        assert_true(was_held);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_int_equal(waitpid(other, &status, WNOHANG), 0);
        agent_lock_drop(&lock);
        kill(other, SIGKILL);
        waitpid(other, &status, 0);
    }
}

TEST(a_lock_that_was_dropped_ends_nobody) {
    struct agent_lock lock;
    bool was_held;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(agent_lock_take(directory, "u", &lock, &was_held, NULL), STATUS_OK);
        assert_false(was_held);
        agent_lock_drop(&lock);
        assert_int_not_equal(access(lock.path, F_OK), 0);
    }
}

TEST(a_directory_that_is_not_there_is_named) {
    struct agent_lock lock;
    struct error error;
    bool was_held;
    assert_int_equal(agent_lock_take("/nowhere", "u", &lock, &was_held, &error), STATUS_IO);
    assert_string_equal(error.text, "/nowhere/unit-u: No such file or directory");
}

TEST_GROUP(make_directory, remove_directory)
