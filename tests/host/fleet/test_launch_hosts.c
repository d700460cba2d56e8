/* SPDX-License-Identifier: Apache-2.0
 * Protects units on several hosts: they start where the fewest are, are found by what `ps` says, a
 * host that fails is left alone for a while, and one that does not answer keeps what it had. The
 * remote shell is a script that runs all here, and is away for a host named in a file.
 */
#include <unistd.h>

#include "host/fleet/launcher.h"
#include "host/process/private_room.h"

#define TEST_OWN_MAIN
#include "test_case.h"

static char folder[] = "/tmp/launch-hosts-XXXXXX", shell[64], away[64], tag[8];
static uint32_t seen_count, seen_on_b;

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void note(void *context, const struct launched_unit *unit) {
    (void)context;
    seen_count++;
    seen_on_b += strstr(unit->job, " on b") != NULL;
}

static void look(struct unit_launcher *launcher, uint32_t wanted) {
    struct error error;
    for (int try = 0; try < 6000; try++) {
        seen_count = seen_on_b = 0;
        assert_int_equal(launcher->list(launcher->self, note, NULL, &error), STATUS_OK);
        if (seen_count == wanted) return;
        usleep(10000);
    }
    fail_msg("%u units are seen, not %u", seen_count, wanted);
}

static enum status start(struct unit_launcher *launcher, const char *program, uint32_t number,
                         struct error *error) {
    char instance[16], log_path[80];
    snprintf(instance, sizeof instance, "%s%06x", tag, number);
    snprintf(log_path, sizeof log_path, "%s/unit.log", folder);
    const char *const words[] = {program,      "-c",     "while :; do sleep 1; done",
                                 "unit",       "--role", "prefill",
                                 "--instance", instance, "end",
                                 NULL};
    struct launch_request request = {.number = number,
                                     .role = UNIT_PREFILL,
                                     .nodes = 1,
                                     .instance = instance,
                                     .argv = words,
                                     .log_path = log_path};
    return launcher->start(launcher->self, &request, error);
}

/* Both hosts are this machine: each sees the units of both. */
TEST(units_start_are_found_and_end) {
    static const char *const names[] = {"a", "b"};
    const char *remote[] = {"/bin/sh", shell, NULL};
    const struct launch_hosts_options options = {
        .hosts = names, .host_count = 2, .units_per_host_max = 4, .remote_shell = remote};
    struct unit_launcher launcher;
    struct error error;
    assert_int_equal(launch_hosts_open(tag, &options, &launcher, &error), STATUS_OK);
    assert_int_equal(start(&launcher, "/bin/sh", 1, &error), STATUS_FULL); /* nobody has answered */
    look(&launcher, 0);
    assert_int_equal(start(&launcher, "/bin/sh", 1, &error), STATUS_OK);
    look(&launcher, 2);
    assert_int_equal(seen_on_b, 1);
    write_file(away, "b");
    look(&launcher, 2); /* b does not answer, and keeps what it had */
    launcher.stop(launcher.self, 1, false);
    look(&launcher, 1);
    write_file(away, "nobody");
    look(&launcher, 0);
    launcher.close(launcher.self);
}

TEST(a_host_on_which_a_start_fails_is_left_alone) {
    static const char *const names[] = {"a", "b"};
    const char *remote[] = {"/bin/sh", shell, NULL};
    const struct launch_hosts_options options = {
        .hosts = names, .host_count = 2, .units_per_host_max = 1, .remote_shell = remote};
    struct unit_launcher launcher;
    struct error error;
    assert_int_equal(launch_hosts_open(tag, &options, &launcher, &error), STATUS_OK);
    look(&launcher, 0);
    assert_int_equal(start(&launcher, "/nowhere/fathom", 2, &error), STATUS_IO);
    assert_non_null(strstr(error.text, "host a: "));
    assert_non_null(strstr(error.text, "/nowhere/fathom is not there"));
    assert_int_equal(start(&launcher, "/nowhere/fathom", 3, &error), STATUS_IO);
    assert_non_null(strstr(error.text, "host b: "));
    assert_int_equal(start(&launcher, "/nowhere/fathom", 4, &error), STATUS_FULL);
    launcher.close(launcher.self);
}

int main(void) {
    char name[32], script[256];
    snprintf(name, sizeof name, "hosts %d", (int)getpid());
    launcher_tag(name, tag);
    if (!mkdtemp(folder)) return 1;
    snprintf(shell, sizeof shell, "%s/shell", folder);
    snprintf(away, sizeof away, "%s/away", folder);
    write_file(away, "nobody");
    snprintf(script, sizeof script,
             "[ \"$1\" = \"$(cat %s)\" ] && { echo no route >&2; exit 255; }\nexec sh -c \"$2\"\n",
             away);
    write_file(shell, script);
    int failed = test_cases_run();
    private_room_remove(folder);
    return failed;
}
