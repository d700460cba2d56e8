/* SPDX-License-Identifier: Apache-2.0
 * Protects units as processes of this machine: they are found by their command line, by another
 * launcher, too, end when they are told, and a program that is not there is an error at once.
 */
#include <signal.h>
#include <unistd.h>

#include "host/fleet/launcher.h"

#define TEST_OWN_MAIN
#include "test_case.h"

static char tag[FLEET_TAG_DIGITS + 1], log_path[64];
static uint32_t seen_count;
static struct launched_unit last;

static void note(void *context, const struct launched_unit *unit) {
    (void)context;
    seen_count++;
    last = *unit;
}

static void look(struct unit_launcher *launcher, uint32_t wanted) {
    struct error error;
    for (int try = 0; try < 60000; try++) {
        seen_count = 0;
        assert_int_equal(launcher->list(launcher->self, note, NULL, &error), STATUS_OK);
        if (seen_count == wanted) return;
        usleep(1000);
    }
    fail_msg("%u units are seen, not %u", seen_count, wanted);
}

static enum status start(struct unit_launcher *launcher, const char *program, uint32_t number,
                         struct error *error) {
    char instance[16];
    snprintf(instance, sizeof instance, "%s%06x", tag, number);
    const char *const words[] = {program,      "-c",     "while :; do sleep 1; done",
                                 "unit",       "--role", "decode",
                                 "--instance", instance, NULL};
    struct launch_request request = {.number = number,
                                     .role = UNIT_DECODE,
                                     .nodes = 1,
                                     .instance = instance,
                                     .argv = words,
                                     .log_path = log_path};
    return launcher->start(launcher->self, &request, error);
}

TEST(a_unit_is_found_again_and_ends_when_it_is_reported) {
    struct unit_launcher first, second;
    struct error error;
    assert_int_equal(launch_local_open(tag, &first, &error), STATUS_OK);
    assert_int_equal(launch_local_open(tag, &second, &error), STATUS_OK);
    look(&first, 0);
    assert_int_equal(start(&first, "/bin/sh", 7, &error), STATUS_OK);
    look(&second, 1);
    assert_int_equal(last.number, 7);
    assert_int_equal(last.role, UNIT_DECODE);
    assert_true(strncmp(last.job, "pid ", 4) == 0);
    second.stop(second.self, 8, true);
    look(&first, 1);
    second.stop(second.self, 7, false);
    look(&first, 0);
    first.close(first.self);
    second.close(second.self);
}

/* Any user can give its process the words of a unit. */
TEST(another_users_process_is_no_unit) {
    struct unit_launcher launcher;
    struct error error;
    char instance[16];
    if (geteuid() != 0) skip();
    snprintf(instance, sizeof instance, "%s%06x", tag, 9u);
    assert_int_equal(launch_local_open(tag, &launcher, &error), STATUS_OK);
    pid_t other = fork();
    if (other == 0) {
        if (setgid(65534) || setuid(65534)) _exit(1);
        execl("/bin/sh", "sh", "-c", "while :; do sleep 1; done", "unit", "--role", "decode",
              "--instance", instance, (char *)NULL);
        _exit(1);
    }
    assert_int_equal(start(&launcher, "/bin/sh", 7, &error), STATUS_OK);
    look(&launcher, 1);
    usleep(100000); /* for the other to become what it says */
    look(&launcher, 1);
    kill(other, SIGKILL); /* before anything may fail */
    assert_int_equal(last.number, 7);
    while (kill(other, 0) == 0) /* the launcher has the kernel forget whoever ends */
        usleep(1000);
    launcher.stop(launcher.self, 7, true);
    look(&launcher, 0);
    launcher.close(launcher.self);
}

TEST(a_program_that_is_not_there_is_an_error_at_once) {
    struct unit_launcher launcher;
    struct error error;
    assert_int_equal(launch_local_open(tag, &launcher, &error), STATUS_OK);
    assert_int_equal(start(&launcher, "/nowhere/fathom", 1, &error), STATUS_IO);
    assert_non_null(strstr(error.text, "/nowhere/fathom: No such file"));
    look(&launcher, 0);
    launcher.close(launcher.self);
}

int main(void) {
    char name[64];
    snprintf(name, sizeof name, "test %d", (int)getpid());
    launcher_tag(name, tag);
    snprintf(log_path, sizeof log_path, "/tmp/fathom-launch-%d.log", (int)getpid());
    int failures = test_cases_run();
    unlink(log_path);
    return failures;
}
