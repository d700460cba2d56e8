/* SPDX-License-Identifier: Apache-2.0
 * fathom fleet: the manager that starts and drains units as the load changes, and the operator's
 * queries and commands.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "host/fleet/fleet_runner.h"
#include "programs/fleet_plan.h"
#include "programs/log_options.h"
#include "programs/programs.h"

#define FILE_ARENA_BYTES ((size_t)8 << 20)
#define REPORTED_BYTES_MAX ((size_t)1 << 20)
#define HISTORY_BYTES_MAX ((size_t)256 << 20)

struct fleet_values {
    struct log_values log;
    bool json;
};

static const struct option fleet_rows[] = {
    {"json", OPTION_FLAG, NULL, "status: print one JSON object",
     .offset = offsetof(struct fleet_values, json)},
    LOG_OPTIONS(struct fleet_values),
};

const struct option_table fleet_options = {
    .command = "fleet",
    .arguments = "run|status|plan|drain|resume|pin|history|twin|bound [WHAT] [FILE]",
    .description =
        "Runs a fleet of units that follows its load, as configured in FILE (fleet.yaml), and "
        "queries "
        "or controls its manager. Units continue when the manager ends; the next one takes them "
        "over.\n\n"
        "  fathom fleet run fleet.yaml\n"
        "  fathom fleet status --json\n"
        "  fathom fleet drain 7          (accepts no requests until it is resumed)\n"
        "  fathom fleet resume 7\n"
        "  fathom fleet pin decode=3     (3 units at any load; decode=auto: by the load)\n"
        "  fathom fleet plan             (the next day in virtual time, from the history)\n"
        "  fathom fleet history\n"
        "  fathom fleet twin             (DeepSeek's published day in virtual time; no FILE)\n"
        "  fathom fleet bound            (the fewest nodes of any rule on such days; minutes; no "
        "FILE)",
    .options = fleet_rows,
    .option_count = ARRAY_COUNT(fleet_rows),
    .positional_min = 1,
    .positional_max = 3,
};

static volatile int ends; /* set by a signal */

static void fleet_program_on_signal(int number) {
    (void)number;
    ends = 1;
}

/* ---- run ---- */

/* Sets the path of this program in a form that is valid on other hosts, too. */
static enum status name_program(struct fleet_file *file, struct error *error) {
    static char path[4096];
    if (file->program.count) return STATUS_OK;
    ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 1);
    if (bytes <= 0) return error_set(error, STATUS_IO, "/proc/self/exe: %s", strerror(errno));
    path[bytes] = 0;
    file->program = (struct fleet_words){.count = 1, .words = {path}};
    return STATUS_OK;
}

static enum status run(struct fleet_file *file, struct error *error) {
    struct fleet_runner *runner;
    struct sigaction action = {.sa_handler = fleet_program_on_signal};
    enum status status = name_program(file, error);
    if (!status) status = fleet_runner_open(file, &runner, error);
    if (status) return status;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    fleet_runner_run(runner, &ends);
    fleet_runner_close(runner);
    return STATUS_OK;
}

/* ---- queries and commands ---- */

/* Prints a file of the fleet's folder. */
static enum status fleet_program_show(const struct fleet_file *file, const char *name,
                                      size_t bytes_max, struct error *error) {
    char path[FLEET_PATH_BYTES];
    struct bytes text;
    snprintf(path, sizeof path, "%.400s/%.60s", file->folder, name);
    enum status status = file_take(path, bytes_max, &text, error);
    if (status == STATUS_NOT_FOUND)
        return error_set(error, status,
                         "%.300s: no manager has run this fleet yet; `fathom fleet "
                         "run` does",
                         file->folder);
    if (status) return status;
    fwrite(text.data, 1, text.count, stdout);
    free((void *)(uintptr_t)text.data);
    return STATUS_OK;
}

static enum status show_status(const struct fleet_file *file, bool json, struct error *error) {
    enum status status =
        fleet_program_show(file, json ? "status.json" : "status.txt", REPORTED_BYTES_MAX, error);
    if (!status && !fleet_folder_holder(file->folder))
        fprintf(stderr,
                "fathom fleet: no manager runs this fleet; that is what the last one saw\n");
    return status;
}

/* Returns false if the text is not a whole number. */
static bool fleet_program_read_number(const char *text, uint32_t *number_out) {
    char *end;
    unsigned long number = strtoul(text, &end, 10);
    *number_out = (uint32_t)number;
    return text[0] >= '0' && text[0] <= '9' && !*end && number < UINT32_MAX;
}

/* Parses a command. Returns false after printing an error. */
static bool fleet_program_read_command(const char *verb, const char *what,
                                       struct record_fleet_command *command, int *exit_code_out) {
    const char *count = what ? strchr(what, '=') : NULL;
    if (strcmp(verb, "pin")) {
        command->kind = strcmp(verb, "drain") ? FLEET_COMMAND_RESUME : FLEET_COMMAND_DRAIN;
        if (what && fleet_program_read_number(what, &command->number) && command->number)
            return true;
        *exit_code_out = command_misused("%s: expected a unit's number", verb);
        return false;
    }
    command->kind = FLEET_COMMAND_PIN;
    command->role = what && !strncmp(what, "prefill=", 8) ? UNIT_PREFILL : UNIT_DECODE;
    command->count = FLEET_UNPINNED;
    bool known =
        count && (command->role == UNIT_PREFILL || !strncmp(what, "decode=", 7)) &&
        (!strcmp(count + 1, "auto") || fleet_program_read_number(count + 1, &command->count));
    if (!known) *exit_code_out = command_misused("pin: expected prefill=UNITS or decode=UNITS");
    return known;
}

static enum status give_command(const struct fleet_file *file, struct record_fleet_command *command,
                                struct error *error) {
    record_set_head(command, RECORD_FLEET_COMMAND);
    enum status status = fleet_folder_write_command(file->folder, command, error);
    if (!status && !fleet_folder_holder(file->folder))
        fprintf(stderr, "fathom fleet: no manager runs this fleet; the next one will do it\n");
    return status;
}

/* ---- the command ---- */

/* The number of words between the verb and the file; -1: no such verb. */
static int fleet_program_words_of(const char *verb) {
    static const struct {
        const char *verb;
        int words;
    } verbs[] = {{"run", 0},     {"plan", 0},  {"twin", 0},   {"bound", 0}, {"status", 0},
                 {"history", 0}, {"drain", 1}, {"resume", 1}, {"pin", 1}};
    for (size_t i = 0; i < ARRAY_COUNT(verbs); i++)
        if (!strcmp(verb, verbs[i].verb)) return verbs[i].words;
    return -1;
}

static enum status act(const char *verb, const struct fleet_values *values, struct fleet_file *file,
                       struct record_fleet_command *command, struct error *error) {
    if (!strcmp(verb, "run")) return run(file, error);
    if (!strcmp(verb, "plan")) return fleet_plan_day(file, error);
    if (!strcmp(verb, "status")) return show_status(file, values->json, error);
    if (!strcmp(verb, "history"))
        return fleet_program_show(file, "history.csv", HISTORY_BYTES_MAX, error);
    return give_command(file, command, error);
}

int program_fleet(void *given, const struct option_result *result) {
    struct fleet_values *values = given;
    struct record_fleet_command command = {.kind = FLEET_COMMAND_PIN};
    struct fleet_file file;
    struct error error;
    struct arena arena;
    int exit_code;
    const char *verb = result->positional[0];
    int words = fleet_program_words_of(verb);
    if (words < 0 || result->positional_count > (size_t)words + 2)
        return command_misused("expected %s", fleet_options.arguments);
    const char *what = words && result->positional_count > 1 ? result->positional[1] : NULL;
    if (words && !fleet_program_read_command(verb, what, &command, &exit_code)) return exit_code;
    const char *path =
        result->positional_count > (size_t)words + 1 ? result->positional[words + 1] : "fleet.yaml";
    log_start(values->log.format, values->log.level, false);
    void *memory = malloc(FILE_ARENA_BYTES);
    check(memory);
    arena_over(&arena, memory, FILE_ARENA_BYTES);
    bool is_simulator = strcmp(verb, "twin") == 0, is_bound = strcmp(verb, "bound") == 0;
    bool has_file = !is_simulator && !is_bound;
    enum status status = is_simulator ? fleet_plan_simulator(&error)
                         : is_bound   ? fleet_plan_bound(&error)
                                      : fleet_file_read(path, &arena, &file, &error);
    if (!status && has_file) status = act(verb, values, &file, &command, &error);
    exit_code = command_end(status, &error);
    free(memory);
    return exit_code;
}
