/* SPDX-License-Identifier: Apache-2.0
 * Protects other programs as children: what one prints comes back whole, a server is there when it
 * says so and gone when it is stopped, and what goes wrong is told with the child's own last line.
 */
#include "bench/child.h"

#include <signal.h>
#include <unistd.h>

#include "test_case.h"

static struct error error;

static enum status run(const char *line, struct bytes *output) {
    const char *const argv[] = {"sh", "-c", line, NULL};
    error = (struct error){""};
    return child_run(argv, output, &error);
}

TEST(what_a_child_prints_comes_back) {
    struct bytes output;
    assert_int_equal(run("echo said >&2; seq 20000", &output),
                     STATUS_OK); /* more than a pipe has */
    assert_memory_equal(output.data, "1\n2\n3\n", 6);
    assert_string_equal(output.data + output.count - 6, "20000\n");
    free((void *)(uintptr_t)output.data);
}

TEST(a_child_that_fails_is_reported_with_its_last_line) {
    static const char *const nowhere[] = {"/nowhere/program", NULL};
    struct bytes output;
    assert_int_equal(run("echo first >&2; echo no room >&2; exit 3", &output), STATUS_IO);
    assert_non_null(strstr(error.text, "status 3; its last line: no room"));
    assert_int_equal(run("kill -9 $$", &output), STATUS_IO);
    assert_non_null(strstr(error.text, "signal 9"));
    assert_int_equal(child_run(nowhere, &output, &error), STATUS_IO);
    assert_non_null(strstr(error.text, "cannot run /nowhere/program: No such file"));
}

static enum status start(const char *line, double seconds_max, struct child *child, char *text) {
    const char *const argv[] = {"sh", "-c", line, NULL};
    return child_start(argv, "listens on ", seconds_max, child, text, 32, &error);
}

TEST(a_server_is_there_once_it_says_so_and_gone_once_stopped) {
    struct child child;
    char text[32];
    assert_int_equal(start("echo it listens on port:7 now; exec sleep 1000", 60, &child, text),
                     STATUS_OK);
    assert_string_equal(text, "port:7");
    pid_t pid = child.pid;
    assert_int_equal(kill(pid, 0), 0);
    child_stop(&child);
    assert_int_equal(kill(pid, 0), -1);
}

TEST(a_server_that_ends_or_says_nothing_is_no_server) {
    struct child child;
    char text[32];
    assert_int_equal(start("echo no port >&2; exit 1", 60, &child, text), STATUS_IO);
    assert_non_null(strstr(error.text, "no port"));
    assert_int_equal(start("exec sleep 1000", 0.1, &child, text), STATUS_TIMEOUT);
    assert_non_null(strstr(error.text, "has not said 'listens on '"));
}

TEST(what_a_child_prints_is_read_as_json) {
    const char *const argv[] = {"sh", "-c", "echo '{\"seconds\":1.5}'", NULL};
    const char *const wrong[] = {"echo", "no JSON", NULL};
    struct child_document document;
    assert_int_equal(child_read(argv, "a bench", &document, &error), STATUS_OK);
    assert_true(child_number(document.root, "seconds") == 1.5);
    assert_true(child_number(document.root, "minutes") == 0);
    free(document.memory);
    assert_int_not_equal(child_read(wrong, "a bench", &document, &error), STATUS_OK);
    assert_non_null(strstr(error.text, "a bench"));
}

TEST(a_command_line_has_its_words_in_order) {
    static struct child_command command;
    child_own(&command, "bench", "model", NULL);
    child_add_option(&command, "model", NULL);
    child_add_option(&command, "device", "cpu");
    child_add_count(&command, "rounds", 7);
    assert_int_equal(command.count, 5);
    assert_string_equal(command.argv[2], "model");
    assert_string_equal(command.argv[3], "--device=cpu");
    assert_string_equal(command.argv[4], "--rounds=7");
    assert_null(command.argv[5]);
}
