/* SPDX-License-Identifier: Apache-2.0
 * Protects child processes: a child ends with its parent, has no descriptor or signal that its
 * options do not name, and a program that cannot be executed is an error. Commands return their
 * output, an exit code other than 0 is an error with the last line, and a command that hangs is
 * killed.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "host/process/child_process.h"

#define TEST_OWN_MAIN
#include "test_case.h"

static char self[4096];

/* Of the child: each check has an exit code of its own. */
static int child_main(void) {
    int last_signal = 0;
    sigset_t blocked;
    struct sigaction pipe;
    prctl(PR_GET_PDEATHSIG, &last_signal);
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    sigaction(SIGPIPE, NULL, &pipe);
    if (last_signal != SIGTERM) return 1;
    if (getpgrp() != getpid()) return 2;
    if (sigismember(&blocked, SIGTERM)) return 3;
    if (pipe.sa_handler != SIG_DFL) return 4;
    if (read(0, &(char){0}, 1) != 0) return 5; /* no input */
    if (write(3, "extra", 5) != 5) return 6;
    for (int file = 4; file < 64; file++)
        if (fcntl(file, F_GETFD) >= 0) return 7;
    return 0;
}

TEST(a_child_has_what_its_options_name_and_nothing_else) {
    const char *const words[] = {self, "child", NULL};
    char text[8] = "";
    int files[2], inherited, how = 0;
    pid_t pid;
    struct error error;
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGTERM);
    sigprocmask(SIG_BLOCK, &some, NULL);
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe(files), 0);
    assert_true((inherited = dup(files[0])) >= 0);
    const struct child_process_options options = {
        .words = words, .input = CHILD_PROCESS_NO_INPUT, .extra = files[1], .end_signal = SIGTERM};
    if (child_process_start(&options, &pid, &error)) fail_msg("%s", error.text);
    assert_true(child_process_wait(pid, (int64_t)60000000000, &how));
    assert_int_equal(how, 0);
    assert_int_equal(read(files[0], text, 5), 5);
    assert_string_equal(text, "extra");
    close(files[0]);
    close(files[1]);
    close(inherited);
}

TEST(a_child_in_a_session_of_its_own_outlives_its_parent) {
    const char *const words[] = {"sleep", "1000", NULL};
    const struct child_process_options options = {.words = words};
    pid_t pid;
    int how = 0;
    assert_int_equal(child_process_start(&options, &pid, NULL), STATUS_OK);
    assert_int_equal(getsid(pid), pid);
    assert_false(child_process_wait(pid, 0, &how));
    kill(pid, SIGKILL);
    assert_true(child_process_wait(pid, (int64_t)60000000000, &how));
    assert_int_equal(how, SIGKILL);
}

static enum status run(const char *script, int timeout_ms, char *out, size_t room,
                       struct error *error) {
    struct command_line line = {.words = {"/bin/sh", "-c", script}, .count = 3};
    return child_process_run(&line, timeout_ms, out, room, error);
}

TEST(the_output_of_a_command_is_returned) {
    char out[64];
    struct error error;
    assert_int_equal(run("echo one; echo two >&2; echo three", 60000, out, sizeof out, &error),
                     STATUS_OK);
    assert_string_equal(out, "one\nthree\n");
    assert_int_equal(run("yes | head -c 100000", 60000, out, sizeof out, &error), STATUS_OK);
    assert_int_equal(strlen(out), sizeof out - 1); /* as much as there is room for */
}

TEST(a_command_that_fails_is_reported_with_its_last_line) {
    char out[64];
    struct error error;
    assert_int_equal(
        run("echo first >&2; echo no such partition >&2; exit 3", 60000, out, sizeof out, &error),
        STATUS_IO);
    assert_string_equal(error.text, "/bin/sh: no such partition");
    struct command_line line = {.words = {"/nowhere/squeue"}, .count = 1};
    assert_int_equal(child_process_run(&line, 60000, out, sizeof out, &error), STATUS_IO);
    assert_string_equal(error.text, "/nowhere/squeue: No such file or directory");
    assert_int_equal(run("sleep 1000 & sleep 1000", 50, out, sizeof out, &error), STATUS_TIMEOUT);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "child") == 0) return child_main();
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return 1;
    return test_cases_run();
}
