/* SPDX-License-Identifier: Apache-2.0
 * Protects a recorded machine: it is called as if nobody stood before it, and all calls are in the
 * file, until that is full. Another user cannot choose which file that is.
 */
#include "host/process/recording/recorder.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "contract/record_unit.h"
#include "host/process/recording/recording.h"
#include "test_case.h"

static char folder[64], path[512];
static struct error error;

/* Answers each record by a CANCEL, and is full every third time. */
struct echo {
    struct outbox outbox;
    uint32_t received, steps;
    char memory[1 << 12];
};

static enum status echo_receive(void *self, const struct record *record, int64_t now_ns) {
    struct echo *echo = self;
    struct record_cancel cancel = {.request = {(uint64_t)now_ns, record->kind, 0, 0}};
    if (++echo->received % 3 == 0) return STATUS_FULL;
    assert_non_null(machine_outbox_put(&echo->outbox, RECORD_CANCEL, &cancel));
    return STATUS_OK;
}

static void echo_step(void *self, int64_t now_ns) {
    ((struct echo *)self)->steps++;
}

static int64_t echo_wake(const void *self) {
    return 77;
}

static struct recorder *open_recorder(struct echo *echo, uint64_t bytes_max,
                                      struct machine *machine_out) {
    struct recorder *recorder;
    struct recorder_options options = {
        .directory = folder, .name = "unit", .bytes_max = bytes_max, .vocab_count = 100};
    *echo = (struct echo){.outbox = {.capacity = sizeof echo->memory}};
    echo->outbox.memory = echo->memory;
    struct machine machine = {echo, &echo->outbox, echo_receive, echo_step, echo_wake};
    assert_int_equal(recorder_open(&options, &recorder, &error), STATUS_OK);
    assert_int_equal(recorder_start(recorder, BYTES_LITERAL("machine unit\n"), &error), STATUS_OK);
    *machine_out = recorder_machine(recorder, &machine);
    return recorder;
}

static int open_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/test_recorder.XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/unit-%ld.rec", folder, (long)getpid());
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static enum status give(struct machine *machine, int64_t now_ns) {
    struct record_cancel cancel = {record_head(RECORD_CANCEL, sizeof cancel), {9, 9, 0, 0}};
    return machine->receive(machine->self, &cancel.record, now_ns);
}

TEST_AROUND(all_calls_are_in_the_file, open_folder, remove_folder) {
    static struct echo echo;
    struct machine machine;
    struct recording recording;
    const struct recording_entry *entry;
    struct recorder *recorder = open_recorder(&echo, 1 << 20, &machine);
    assert_int_equal(machine.next_wake_ns(machine.self), 77);
    for (int64_t now = 1; now <= 30; now++)
        assert_int_equal(give(&machine, now), now % 3 ? STATUS_OK : STATUS_FULL);
    machine.step(machine.self, 31);
    recorder_close(recorder);
    assert_int_equal(echo.received, 30);
    assert_int_equal(recording_open_file(path, "it", &recording, &error), STATUS_OK);
    uint32_t before = 0;
    for (int64_t now = 1; now <= 30; now++) {
        assert_int_equal(recording_next(&recording, "it", &entry, &error), STATUS_OK);
        assert_int_equal(entry->now_ns, now);
        assert_int_equal(entry->outbox_before, before);
        assert_int_equal(entry->status, now % 3 ? STATUS_OK : STATUS_FULL);
        assert_int_equal(recording_put(entry, NULL) != NULL, now % 3 != 0);
        before += now % 3 ? sizeof(struct record_cancel) : 0;
    }
    assert_int_equal(recording_next(&recording, "it", &entry, &error), STATUS_OK);
    assert_int_equal(entry->call, RECORDING_STEP);
    assert_int_equal(recording_next(&recording, "it", &entry, &error), STATUS_OK);
    assert_null(entry);
    assert_int_equal(recording.end, RECORDING_CLOSED);
    recording_close(&recording);
}

TEST_AROUND(a_full_file_ends_and_the_machine_goes_on, open_folder, remove_folder) {
    static struct echo echo;
    struct machine machine;
    struct recording recording;
    const struct recording_entry *entry;
    struct recorder *recorder = open_recorder(&echo, 1 << 20, &machine);
    for (int64_t now = 1; now <= 60000; now++) { /* 5 MB */
        assert_int_equal(give(&machine, now), now % 3 ? STATUS_OK : STATUS_FULL);
        machine_outbox_clear(machine.outbox);
    }
    recorder_close(recorder);
    assert_int_equal(echo.received, 60000);
    assert_int_equal(recording_open_file(path, "it", &recording, &error), STATUS_OK);
    do
        assert_int_equal(recording_next(&recording, "it", &entry, &error), STATUS_OK);
    while (entry);
    assert_true(recording.bytes < 2 << 20);
    assert_int_equal(recording.end, RECORDING_FULL);
    recording_close(&recording);
}

TEST(a_folder_that_cannot_be_made_is_said) {
    struct recorder *recorder;
    struct recorder_options options = {.directory = "/dev/null/none", .name = "unit"};
    assert_int_equal(recorder_open(&options, &recorder, &error), STATUS_OK);
    assert_int_equal(recorder_start(recorder, BYTES_LITERAL("machine unit\n"), &error), STATUS_IO);
    assert_non_null(strstr(error.text, "--record: cannot make /dev/null/none"));
    recorder_close(recorder);
}

static void refuse(enum status status, const char *words) {
    struct recorder *recorder;
    struct recorder_options options = {.directory = folder, .name = "unit"};
    assert_int_equal(recorder_open(&options, &recorder, &error), STATUS_OK);
    assert_int_equal(recorder_start(recorder, BYTES_LITERAL("machine unit\n"), &error), status);
    if (!strstr(error.text, "--record") || !strstr(error.text, folder) ||
        !strstr(error.text, words))
        fail_msg("%s", error.text);
    recorder_close(recorder);
}

TEST_AROUND(no_link_is_followed_to_a_recording, open_folder, remove_folder) {
    char victim[128], found[16] = "";
    snprintf(victim, sizeof victim, "%s/victim", folder);
    FILE *file = fopen(victim, "w+");
    assert_non_null(file);
    fputs("precious", file);
    fflush(file);
    assert_int_equal(symlink(victim, path), 0);
    refuse(STATUS_IO, "it is a link");
    unlink(path);
    assert_int_equal(link(victim, path), 0);
    refuse(STATUS_IO, "with one name");
    rewind(file);
    assert_non_null(fgets(found, sizeof found, file));
    assert_string_equal(found, "precious");
    fclose(file);
    unlink(victim);
}

TEST_AROUND(a_folder_where_others_may_write_is_refused, open_folder, remove_folder) {
    assert_int_equal(chmod(folder, 0777), 0);
    refuse(STATUS_INVALID, "chmod go-w");
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(chmod(folder, 0700), 0);
    if (geteuid() != 0) skip();
    assert_int_equal(chown(folder, 65534, 65534), 0);
    refuse(STATUS_INVALID, "its owner is user 65534");
    assert_int_equal(access(path, F_OK), -1);
}
