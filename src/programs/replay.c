/* SPDX-License-Identifier: Apache-2.0
 * fathom replay: runs recorded machines again (`serve --record DIR`). Each machine is created with
 * the same options, gets the same records at the same times, and must output the same records, byte
 * for byte.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "host/process/recording/recording.h"
#include "host/process/recording/recording_compare.h"
#include "programs/programs.h"
#include "programs/recorded_machine.h"

#define PATH_BYTES 4096
#define ENDING ".rec"

struct replay_values {
    const char *machine, *model;
};

static const struct option replay_rows[] = {
    {"machine", OPTION_TEXT, NULL,
     "replay only recordings with this file name prefix: gateway, unit, unit-1234",
     .offset = offsetof(struct replay_values, machine)},
    {"model", OPTION_TEXT, NULL,
     "directory of the checkpoint with the tokenizer and chat template that a gateway used, if it "
     "has moved",
     .offset = offsetof(struct replay_values, model)},
};

const struct option_table replay_options = {
    .command = "replay",
    .arguments = "DIR",
    .description = "Runs the recordings in a folder again (serve --record DIR): each machine must "
                   "put out the same records. Exit code 1 if one does not.",
    .options = replay_rows,
    .option_count = ARRAY_COUNT(replay_rows),
    .positional_min = 1,
    .positional_max = 1,
};

struct replay {
    const char *name; /* the file's name without its folder */
    struct recording recording;
    struct recorded_machine machine;
    struct recording_names *names;
    uint64_t given, put; /* records so far */
    int64_t first_ns;    /* of the first call */
};

/* Sets an error that names the record and the difference. */
static enum status replay_differs(const struct replay *replay, const struct recording_entry *entry,
                                  const struct record *recorded, const struct error *difference,
                                  struct error *error) {
    const struct record *given = recording_given(entry);
    return error_set(error, STATUS_INVALID,
                     "%s: record %llu (%s), at %.6f s, in answer to %s%s (call %llu): %s",
                     replay->name, (unsigned long long)replay->put + 1,
                     recorded ? record_name(recorded->kind) : "none recorded",
                     (double)(entry->now_ns - replay->first_ns) * 1e-9, given ? "a " : "",
                     given ? record_name(given->kind) : "its step",
                     (unsigned long long)replay->recording.entry_count, difference->text);
}

/* Compares the outbox's records from byte `before` on. */
static enum status compare(struct replay *replay, const struct recording_entry *entry,
                           uint32_t before, struct error *error) {
    const struct outbox *outbox = replay->machine.machine.outbox;
    const struct outbox fresh = {.memory = outbox->memory + before, .used = outbox->used - before};
    const struct record *recorded = recording_put(entry, NULL),
                        *found = machine_outbox_next(&fresh, NULL);
    struct error difference;
    for (; recorded && found; replay->put++) {
        if (!recording_compare(replay->names, recorded, found, &difference))
            return replay_differs(replay, entry, recorded, &difference, error);
        recorded = recording_put(entry, recorded);
        found = machine_outbox_next(&fresh, found);
    }
    if (!recorded && !found) return STATUS_OK;
    if (found)
        error_set(&difference, STATUS_INVALID, "there is a %s", record_name(found->kind));
    else
        error_set(&difference, STATUS_INVALID, "there is none");
    return replay_differs(replay, entry, recorded, &difference, error);
}

static enum status call(struct replay *replay, const struct recording_entry *entry,
                        struct error *error) {
    const struct machine *machine = &replay->machine.machine;
    const struct record *given = recording_given(entry);
    struct error difference;
    uint32_t ways =
        replay->machine.is_gateway
            ? WAY_CLIENT_TO_GATEWAY | WAY_HOST_TO_GATEWAY | WAY_LEDGER_TO_GATEWAY
            : WAY_GATEWAY_TO_UNIT | WAY_ENGINE_TO_UNIT | WAY_CARRIER_TO_UNIT | WAY_STORAGE_TO_UNIT;
    if (!entry->outbox_before) machine_outbox_clear(machine->outbox);
    if (entry->outbox_before != machine->outbox->used || (given && !record_goes(given->kind, ways)))
        return error_set(error, STATUS_INVALID, "%s: call %llu is none that its host makes",
                         replay->name, (unsigned long long)replay->recording.entry_count);
    enum status status = STATUS_OK;
    if (given)
        status = machine->receive(machine->self, given, entry->now_ns);
    else
        machine->step(machine->self, entry->now_ns);
    replay->given += given != NULL;
    if (status != entry->status) {
        error_set(&difference, STATUS_INVALID, "it is taken with status %d, not %u", (int)status,
                  entry->status);
        return replay_differs(replay, entry, NULL, &difference, error);
    }
    return compare(replay, entry, entry->outbox_before, error);
}

static enum status run(struct replay *replay, struct error *error) {
    const struct recording_entry *entry;
    do {
        enum status status = recording_next(&replay->recording, replay->name, &entry, error);
        if (!status && entry && replay->recording.entry_count == 1)
            replay->first_ns = entry->now_ns;
        if (!status && entry) status = call(replay, entry, error);
        if (status) return status;
    } while (entry);
    return STATUS_OK;
}

static void say_same(const struct replay *replay) {
    printf("%s: %llu records put out as recorded, %llu given, in %llu calls; %s\n", replay->name,
           (unsigned long long)replay->put, (unsigned long long)replay->given,
           (unsigned long long)replay->recording.entry_count,
           recording_end_name(replay->recording.end));
}

static enum status replay_file(const char *folder, const char *name, const char *model,
                               struct error *error) {
    char path[PATH_BYTES];
    struct replay replay = {.name = name};
    struct error inner;
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof path)
        return error_set(error, STATUS_INVALID, "the folder's name is too long");
    enum status status = recording_open_file(path, name, &replay.recording, error);
    if (status) return status;
    status = recorded_machine_open(replay.recording.head, model, &replay.machine, &inner);
    if (status) {
        error_set(error, status, "%s: %s", name, inner.text);
    } else {
        replay.names = recording_compare_names_open();
        status = run(&replay, error);
    }
    if (!status) say_same(&replay);
    recording_compare_names_close(replay.names);
    recorded_machine_close(&replay.machine);
    recording_close(&replay.recording);
    return status;
}

static int is_recording(const struct dirent *entry) {
    size_t length = strlen(entry->d_name), ending = sizeof ENDING - 1;
    return length > ending && strcmp(entry->d_name + length - ending, ENDING) == 0;
}

/* Replays every recording, even after one that differs; the first error is reported last. */
static enum status replay_folder(const char *folder, const struct replay_values *values,
                                 struct error *error) {
    struct dirent **names;
    int count = scandir(folder, &names, is_recording, alphasort), found = 0;
    enum status result = STATUS_OK;
    if (count < 0) return error_set(error, STATUS_NOT_FOUND, "%s: is not a folder", folder);
    for (int i = 0; i < count; i++) {
        const char *name = names[i]->d_name, *wanted = values->machine ? values->machine : "";
        struct error own;
        if (strncmp(name, wanted, strlen(wanted)) == 0) {
            found++;
            enum status status = replay_file(folder, name, values->model, &own);
            if (status && result) fprintf(stderr, "%s\n", own.text);
            if (status && !result) *error = own;
            if (status && !result) result = status;
        }
        free(names[i]);
    }
    free(names);
    if (found) return result;
    return error_set(error, STATUS_NOT_FOUND, "%s: there is no recording (%s*%s)", folder,
                     values->machine ? values->machine : "", ENDING);
}

int program_replay(void *given, const struct option_result *result) {
    struct replay_values *values = given;
    struct error error;
    enum status status = replay_folder(result->positional[0], values, &error);
    return command_end(status, &error);
}
