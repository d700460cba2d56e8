/* SPDX-License-Identifier: Apache-2.0 */
#include "command/command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/format.h"
#include "compute/exchange/job.h"
#include "host/process/log/log.h"
#include "host/process/own_file.h"

#ifdef FATHOM_SERVING
#include "host/process/configuration/config_file.h"
#define CONFIG_READER config_file_read
#else
#define CONFIG_READER NULL
#endif

#define INPUT_BYTES_MAX ((size_t)1 << 30)
#define VALUES_BYTES 8192 /* limit of the values of any command */

static const struct option_table *current; /* options of the current command */

const char *command_name(void) {
    return current->command;
}

const struct command *command_next_subcommand(const struct command *command,
                                              const struct command *before) {
    if (!command->subjects) return before ? NULL : command;
    const struct command *next = before ? before + 1 : command->subjects;
    return next->name ? next : NULL;
}

/* True if another process wrote the command line; that process has already warned. */
static bool is_started_by_fathom(const struct option_table *table, const void *values) {
    const struct option *health = options_find(table, "board");
    char text[16];
    return job_exists() || (health && options_format(health, values, text, sizeof text) > 0);
}

void command_warn_idle(const void *values) {
    const struct option_table *table = current;
    char why[OPTION_IDLE_BYTES], name[64];
    const struct option *option = NULL;
    if (is_started_by_fathom(table, values)) return;
    while ((option = options_next_idle(table, values, option))) {
        options_say_idle(table, option, why);
        snprintf(name, sizeof name, "%s%s", options_is_experiment(option) ? "--experiment " : "--",
                 option->name);
        if (options_find(table, "log-format"))
            log_say_all(LOG_WARNING, "process", "an option does nothing here option=%s why=%s",
                        name, why);
        else
            fprintf(stderr, "fathom %s: %s does nothing %s\n", table->command, name, why);
    }
}

/* Prints an error. It may quote untrusted text, so control characters are escaped. */
static void command_complain(const char *text, bool has_help) {
    char visible[FORMAT_SAFE_BYTES(sizeof((struct error *)NULL)->text)];
    format_visible(visible, sizeof visible, text);
    fprintf(stderr, "fathom %s: %s", current->command, visible);
    if (has_help) fprintf(stderr, "; see `fathom %s --help`", current->command);
    fprintf(stderr, "\n");
}

bool command_begin(const struct option_table *table, int argc, char **argv, void *values,
                   struct option_result *result_out, int *exit_code_out) {
    struct error error;
    current = table;
    if (options_parse(table, argc, argv, values, CONFIG_READER, result_out, &error) != STATUS_OK) {
        command_complain(error.text, false);
        *exit_code_out = EXIT_CODE_USAGE;
        return false;
    }
    if (result_out->help) *exit_code_out = command_end(STATUS_OK, NULL);
    if (!result_out->help && !options_find(table, "log-format")) command_warn_idle(values);
    return !result_out->help;
}

int command_failed(enum status status, const struct error *error) {
    const char *text = error && error->text[0] ? error->text : status_name(status);
    fflush(stdout);
    log_finish();
    if (log_form() == LOG_JSON)
        log_say(LOG_ERROR, "process", "failed command=%s why=%s", current->command, text);
    else
        command_complain(text, false);
    return EXIT_CODE_FAILED;
}

int command_misused(const char *format, ...) {
    va_list arguments;
    struct error error;
    va_start(arguments, format);
    format_va(error.text, sizeof error.text, format, arguments);
    va_end(arguments);
    command_complain(error.text, true);
    return EXIT_CODE_USAGE;
}

int command_end(enum status status, const struct error *error) {
    if (status != STATUS_OK) return command_failed(status, error);
    if (!fflush(stdout) && !ferror(stdout)) return EXIT_CODE_OK;
    fprintf(stderr, "fathom %s: cannot write to standard output: %s\n", current->command,
            strerror(errno));
    return EXIT_CODE_FAILED;
}

static void print_subjects(const struct command *command, FILE *out) {
    fprintf(out, "usage: fathom %s SUBJECT [options]\n\nsubjects:\n", command->name);
    for (const struct command *subject = command->subjects; subject->name; subject++)
        fprintf(out, "  %-12s %s\n", subject->name, subject->summary);
    fprintf(out, "\n`fathom %s SUBJECT --help` describes a subject and its options.\n",
            command->name);
}

static int command_run_subject(const struct command *command, int argc, char **argv) {
    char tool[64];
    if (argc < 2) {
        print_subjects(command, stderr);
        return EXIT_CODE_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        print_subjects(command, stdout);
        return EXIT_CODE_OK;
    }
    struct nearest nearest = nearest_begin(bytes_of(argv[1]));
    snprintf(tool, sizeof tool, "fathom %s", command->name);
    return command_dispatch(tool, "subject", command->subjects, &nearest, argc, argv);
}

int command_run(const struct command *command, int argc, char **argv) {
    static _Alignas(max_align_t) char values[VALUES_BYTES];
    struct option_result result;
    int exit_code;
    if (command->subjects) return command_run_subject(command, argc, argv);
    for (size_t i = 0; i < command->options->option_count; i++)
        check(command->options->options[i].offset + sizeof(struct option_texts) <= VALUES_BYTES);
    if (!command_begin(command->options, argc, argv, values, &result, &exit_code)) return exit_code;
    return command->run(values, &result);
}

int command_dispatch(const char *tool, const char *kind, const struct command *list,
                     struct nearest *nearest, int argc, char **argv) {
    for (const struct command *command = list; command->name; command++) {
        if (!strcmp(argv[1], command->name)) return command_run(command, argc - 1, argv + 1);
        nearest_try(nearest, command->name);
    }
    int shown = (int)(nearest->word.count < 80 ? nearest->word.count : 80);
    fprintf(stderr, "%s: unknown %s '%.*s'; ", tool, kind, shown, nearest->word.data);
    if (nearest->name)
        fprintf(stderr, "did you mean '%s'?\n", nearest->name);
    else
        fprintf(stderr, "`%s --help` lists them\n", tool);
    return EXIT_CODE_USAGE;
}

enum status command_read_input(struct bytes *out, struct error *error) {
    char *memory = NULL;
    size_t capacity = 0, count = 0, got = 1;
    while (got > 0) {
        if (count == capacity) {
            capacity = capacity ? 2 * capacity : (size_t)64 << 10;
            char *larger = capacity <= INPUT_BYTES_MAX ? realloc(memory, capacity) : NULL;
            if (!larger) {
                free(memory);
                return error_set(error, STATUS_NO_MEMORY, "no memory for standard input");
            }
            memory = larger;
        }
        got = fread(memory + count, 1, capacity - count, stdin);
        count += got;
    }
    *out = (struct bytes){memory, count};
    if (!ferror(stdin)) return STATUS_OK;
    free(memory);
    return error_set(error, STATUS_IO, "cannot read standard input: %s", strerror(errno));
}

/* Writes the text to a file (own_file_named), or to stdout if `path` is NULL. */
static enum status write_text(const char *name, const char *path, int how, mode_t mode,
                              command_writer *write, const void *subject, struct error *error) {
    struct json_writer counter = {0};
    write(&counter, subject);
    struct json_writer writer = {.out = malloc(counter.count + 1), .room = counter.count};
    if (!writer.out) return error_set(error, STATUS_NO_MEMORY, "no memory for the results' text");
    write(&writer, subject);
    check(json_writer_fits(&writer));
    FILE *file = path ? own_file_named(path, how, mode) : stdout;
    bool whole = file && fwrite(writer.out, 1, writer.count, file) == writer.count;
    if (path && file && fclose(file)) whole = false;
    free(writer.out);
    if (whole || !path) return STATUS_OK; /* command_end checks stdout */
    if (!file && errno == EEXIST)
        return error_set(error, STATUS_IO, "%.300s exists; %s! replaces it", path, name);
    return error_set(error, STATUS_IO, "%s: cannot write %.300s: %s", name, path,
                     own_file_why(errno));
}

enum status command_write(const char *option, const char *path, command_writer *write,
                          const void *subject, struct error *error) {
    return write_text(option, path, O_TRUNC, 0666, write, subject, error);
}

enum status command_write_private(const char *name, const char *path, bool replaces,
                                  command_writer *write, const void *subject, struct error *error) {
    return write_text(name, path, replaces ? O_TRUNC : O_EXCL, 0600, write, subject, error);
}

enum status command_read_lines(enum status (*take)(void *context, struct bytes line), void *context,
                               struct error *error) {
    char *line = NULL;
    size_t capacity = 0, number = 0;
    ssize_t length;
    enum status status = STATUS_OK;
    while (!status && (length = getline(&line, &capacity, stdin)) >= 0) {
        number++;
        if (strspn(line, " \t\r\n") == (size_t)length) continue;
        status = take(context, (struct bytes){line, (size_t)length});
        fflush(stdout);
        if (!status) continue;
        struct error reason = *error;
        error_set(error, status, "standard input, line %zu: %.400s", number, reason.text);
    }
    if (!status && ferror(stdin))
        status = error_set(error, STATUS_IO, "cannot read standard input: %s", strerror(errno));
    free(line);
    return status;
}
