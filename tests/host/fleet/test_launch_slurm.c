/* SPDX-License-Identifier: Apache-2.0
 * Protects what is asked of Slurm and read of it, with scripts in its commands' places: a job's
 * name and nodes, options from outside, a command line that a shell reads as it was meant; jobs of
 * other people and those that have ended are nobody's; a controller that does not answer is an
 * error, and no empty fleet. A cluster is in tests/programs/test_fleet_slurm.py.
 */
#include <unistd.h>

#include <sys/stat.h>

#include "host/fleet/launcher.h"
#include "host/process/private_room.h"

#define TEST_OWN_MAIN
#include "test_case.h"

static char folder[] = "/tmp/launch-slurm-XXXXXX";
static struct launched_unit seen[8];
static uint32_t seen_count;

static void write_program(const char *name, const char *text) {
    char path[96];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", text);
    fclose(file);
    assert_int_equal(chmod(path, 0755), 0);
}

static const char *said(void) {
    static char text[4096];
    char path[96];
    snprintf(path, sizeof path, "%s/said", folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    unlink(path);
    return text;
}

static void note(void *context, const struct launched_unit *unit) {
    (void)context;
    seen[seen_count++] = *unit;
}

static struct unit_launcher open_launcher(void) {
    static const char *const options[] = {"--partition=night", NULL};
    struct unit_launcher launcher;
    struct error error;
    assert_int_equal(launch_slurm_open("a1b2c3", options, &launcher, &error), STATUS_OK);
    return launcher;
}

TEST(a_unit_is_a_job_with_its_name) {
    struct unit_launcher launcher = open_launcher();
    const char *const words[] = {"/opt/fathom", "unit", "--model", "it's here", NULL};
    struct launch_request request = {.number = 7,
                                     .role = UNIT_DECODE,
                                     .nodes = 18,
                                     .argv = words,
                                     .log_path = "/log/unit-7.log"};
    struct error error;
    write_program("sbatch",
                  "for word in \"$@\"; do echo \"$word\" >>$FLEET_TEST/said; done; echo 17");
    assert_int_equal(launcher.start(launcher.self, &request, &error), STATUS_OK);
    assert_string_equal(said(), "--parsable\n--job-name\nfathom-a1b2c3-7-decode\n--nodes\n18\n"
                                "--output\n/log/unit-7.log\n--open-mode\nappend\n--no-requeue\n"
                                "--partition=night\n--wrap\n"
                                "exec '/opt/fathom' 'unit' '--model' 'it'\\''s here'\n");
    write_program("sbatch", "echo 'sbatch: error: invalid partition' >&2; exit 1");
    assert_int_equal(launcher.start(launcher.self, &request, &error), STATUS_IO);
    assert_string_equal(error.text, "sbatch: sbatch: error: invalid partition");
    launcher.close(launcher.self);
}

TEST(its_jobs_are_those_with_the_mark_that_have_not_ended) {
    struct unit_launcher launcher = open_launcher();
    struct error error;
    write_program("squeue", "cat <<END\n"
                            "17|fathom-a1b2c3-7-decode|RUNNING|n3|None|1764000000|N/A\n"
                            "18|fathom-a1b2c3-8-prefill|PENDING||Resources|N/A|N/A\n"
                            "19|fathom-a1b2c3-9-decode|COMPLETING|n4|None|1764000000|N/A\n"
                            "20|fathom-ffffff-7-decode|RUNNING|n3|None|1764000000|N/A\n"
                            "21|train|RUNNING|n5|None|1764000000|N/A\n"
                            "22|fathom-a1b2c3-x-decode|RUNNING|n3|None|1764000000|N/A\n"
                            "23|fathom-a1b2c3-6-decode|COMPLETED|n6|None|1764000000|1764000060\n"
                            "END");
    seen_count = 0;
    assert_int_equal(launcher.list(launcher.self, note, NULL, &error), STATUS_OK);
    assert_int_equal(seen_count, 2);
    assert_true(seen[0].number == 7 && seen[0].role == UNIT_DECODE && !seen[0].pending);
    assert_string_equal(seen[0].job, "job 17 on n3");
    assert_true(seen[1].number == 8 && seen[1].role == UNIT_PREFILL && seen[1].pending);
    assert_string_equal(seen[1].job, "job 18 waits: Resources");
    write_program("squeue", "echo 'Unable to contact slurm controller' >&2; exit 1");
    seen_count = 0;
    assert_int_equal(launcher.list(launcher.self, note, NULL, &error), STATUS_IO);
    assert_int_equal(seen_count, 0);
    launcher.close(launcher.self);
}

/* The words of sbatch that follow on "--exclude". */
static void assert_excludes(struct unit_launcher *launcher, const char *nodes) {
    const char *const words[] = {"/opt/fathom", NULL};
    struct launch_request request = {
        .number = 9, .role = UNIT_DECODE, .nodes = 1, .argv = words, .log_path = "/log"};
    struct error error;
    char wanted[128];
    seen_count = 0;
    assert_int_equal(launcher->list(launcher->self, note, NULL, &error), STATUS_OK);
    assert_int_equal(seen_count, 0);
    assert_int_equal(launcher->start(launcher->self, &request, &error), STATUS_OK);
    snprintf(wanted, sizeof wanted, "--exclude %s --wrap", nodes);
    const char *text = said();
    assert_true(nodes[0] ? strstr(text, wanted) != NULL : strstr(text, "--exclude") == NULL);
}

TEST(nodes_on_which_a_unit_just_failed_are_left_out) {
    struct unit_launcher launcher = open_launcher();
    const char *const words[] = {"/opt/fathom", NULL};
    struct launch_request request = {
        .number = 9, .role = UNIT_DECODE, .nodes = 1, .argv = words, .log_path = "/log"};
    struct error error;
    write_program("sbatch", "echo \"$@\" >>$FLEET_TEST/said");
    write_program("squeue",
                  "now=$(date +%s); cat <<END\n"
                  "17|fathom-a1b2c3-7-decode|FAILED|n3|NonZero|$((now - 9))|$((now - 5))\n"
                  "18|fathom-a1b2c3-8-prefill|BOOT_FAIL|n[5-6]|x|$((now - 9))|$((now - 5))\n"
                  "19|fathom-a1b2c3-5-decode|COMPLETED|n7|x|$((now - 9))|$((now - 5))\n"
                  "20|fathom-a1b2c3-4-decode|FAILED|n8|x|$((now - 900))|$((now - 5))\n"
                  "21|fathom-a1b2c3-3-decode|FAILED|n9|x|$((now - 309))|$((now - 305))\n"
                  "22|fathom-ffffff-3-decode|FAILED|n10|x|$((now - 9))|$((now - 5))\n"
                  "END");
    assert_excludes(&launcher, "n3,n[5-6]");
    write_program("scancel", "true");
    launcher.stop(launcher.self, 7, true); /* it did not fail by itself */
    assert_excludes(&launcher, "n[5-6]");
    write_program("sbatch", "case \"$*\" in *--exclude*) echo no such nodes >&2; exit 1;; esac; "
                            "echo \"$@\" >>$FLEET_TEST/said");
    assert_int_equal(launcher.start(launcher.self, &request, &error), STATUS_OK);
    assert_null(strstr(said(), "--exclude")); /* rather there than nowhere */
    write_program("squeue", "true");
    assert_excludes(&launcher, "");
    launcher.close(launcher.self);
}

/* Of several --exclude sbatch takes the last alone. */
TEST(nodes_that_the_operator_leaves_out_stay_out) {
    static const char *const ways[][3] = {
        {"--exclude=n1", NULL}, {"--exclude", "n1", NULL}, {"-x", "n1", NULL}, {"-xn1", NULL}};
    struct error error;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct unit_launcher launcher;
        assert_int_equal(launch_slurm_open("a1b2c3", ways[i], &launcher, &error), STATUS_OK);
        write_program("sbatch", "echo \"$@\" >>$FLEET_TEST/said");
        write_program("squeue", "true");
        assert_excludes(&launcher, "n1");
        write_program("squeue",
                      "now=$(date +%s); echo "
                      "\"17|fathom-a1b2c3-7-decode|FAILED|n3|x|$((now - 9))|$((now - 5))\"");
        assert_excludes(&launcher, "n1,n3");
        launcher.close(launcher.self);
    }
}

TEST(a_drain_goes_to_the_batch_process_and_waiting_jobs_are_cancelled) {
    struct unit_launcher launcher = open_launcher();
    write_program("scancel", "echo \"$@\" >>$FLEET_TEST/said");
    launcher.stop(launcher.self, 7, false);
    const char *text = said();
    assert_non_null(strstr(text, "--quiet --name fathom-a1b2c3-7-decode --state PENDING\n"));
    assert_non_null(strstr(text, "--quiet --name fathom-a1b2c3-7-decode --signal TERM --batch\n"));
    launcher.stop(launcher.self, 7, true);
    assert_non_null(strstr(said(), "fathom-a1b2c3-7-prefill --signal KILL --batch\n"));
    launcher.close(launcher.self);
}

int main(void) {
    char path[4096];
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s:%s", folder, getenv("PATH"));
    setenv("PATH", path, 1);
    setenv("FLEET_TEST", folder, 1);
    int failed = test_cases_run();
    private_room_remove(folder);
    return failed;
}
