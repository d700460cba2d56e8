/* SPDX-License-Identifier: Apache-2.0
 * The parts that all subcommands share: reading options, printing errors to stderr with the
 * command's name as a prefix, and exit codes. A program reads
 *
 *     struct serve_values values;
 *     struct option_result result;
 *     struct error error;
 *     int exit_code;
 *     if (!command_begin(serve_options, argc, argv, &values, &result, &exit_code))
 *         return exit_code;
 *     ...
 *     if (status != STATUS_OK) return command_failed(serve_options, status, &error);
 *     return command_end(serve_options);
 */
#ifndef COMMAND_COMMAND_H
#define COMMAND_COMMAND_H

#include "base/json_writer.h"
#include "base/nearest.h"
#include "base/options.h"

enum exit_code {
    EXIT_CODE_OK = 0,
    EXIT_CODE_FAILED = 1, /* the work failed: bad checkpoint, I/O, a refused request */
    EXIT_CODE_USAGE = 2,  /* the command line or the configuration file is wrong */
};

/* A subject of a command (`fathom bench model`), in a file of its own. */
struct command_subject {
    const char *name, *summary;
    int (*run)(int argc, char **argv); /* argv[0] is the subject's name */
    const struct option_table *options;
};

struct program { /* has tables of options, or subjects */
    const char *name, *summary;
    int (*run)(int argc, char **argv);
    const struct option_table *options; /* [option_table_count] */
    size_t option_table_count;
    const struct command_subject *subjects; /* [*subject_count] */
    const size_t *subject_count;            /* NULL: no subjects */
};

/* The command line of the process, starting with argv[0]. */
extern char **program_arguments;

/* Parses the options and, in builds with serving, the file of `--config`. Returns false if the
 * program must exit with *exit_code_out, because it has printed the help or an error. */
bool command_begin(const struct option_table *table, int argc, char **argv, void *values,
                   struct option_result *result_out, int *exit_code_out);

/* Warns about each option that is set but has no effect (struct option, needs), one line each, on
 * stderr or in the log of a command that has one. Ranks and units started by a supervisor do not
 * warn. command_begin calls it for commands without a log. */
void command_say_idle(const struct option_table *table, const void *values);

/* Prints "fathom serve: <error>" to stderr after the rest of the log, or writes it to a JSON log.
 * Returns EXIT_CODE_FAILED. */
int command_failed(const struct option_table *table, enum status status, const struct error *error);

/* command_failed for a command line that option rules cannot check ("--tokens and a prompt exclude
 * each other"). Adds a reference to --help; returns EXIT_CODE_USAGE. */
int command_misused(const struct option_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reports an unknown word: `tool` ("fathom", "fathom bench") has no such `kind` ("command",
 * "subject"). Suggests the nearest known word; returns EXIT_CODE_USAGE. */
int command_unknown(const char *tool, const char *kind, const struct nearest *nearest);

/* Flushes stdout. Returns EXIT_CODE_OK, or EXIT_CODE_FAILED with a line on stderr if the results
 * could not be written (a full disk, a closed pipe). Every program that prints results ends with
 * it. */
int command_end(const struct option_table *table);

/* Writes a text to the file given by the option, which is replaced if it exists; `path` NULL: to
 * stdout. `write` is called twice: to measure the text, and to write it. */
typedef void command_writer(struct json_writer *writer, const void *subject);
enum status command_write(const char *option, const char *path, command_writer *write,
                          const void *subject, struct error *error) MUST_USE;

/* Reads standard input to its end. The caller frees out->data. */
enum status command_take_input(struct bytes *out, struct error *error) MUST_USE;

/* A row for commands that accept messages; `member` of TYPE is a text, "on" or "off". */
#define CONTENT_SPECIALS_OPTION(TYPE, member)                                                      \
    OPTION_ROW("content-specials", OPTION_CHOICE, "off",                                           \
               "recognize special tokens in messages, too; off: they are plain text there, so "    \
               "that no message can forge a turn",                                                 \
               .offset = offsetof(TYPE, member), .choices = "on|off", .needs = "=tokens")

/* A row for commands that accept messages; `member` of TYPE is a path, or NULL. */
#define CHAT_TEMPLATE_OPTION(TYPE, member)                                                         \
    OPTION_ROW("chat-template", OPTION_TEXT, NULL,                                                 \
               "a file with a chat template (Jinja) instead of the model's own",                   \
               .offset = offsetof(TYPE, member), .needs = "=tokens")

/* Runs the subject named by argv[1], or prints help or an error. Returns the exit code. */
int command_dispatch(const char *command, const struct command_subject *subjects, size_t count,
                     int argc, char **argv);

#endif
