/* SPDX-License-Identifier: Apache-2.0
 * What every subcommand does alike: read its options, say what is wrong on stderr with the
 * command's name in front, and end with an exit code that means something. A program reads
 *
 *     struct serve_values values;
 *     struct option_result result;
 *     struct error error;
 *     int exit_code;
 *     if (!command_begin(serve_options, argc, argv, &values, &result, &exit_code)) return
 * exit_code;
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

/* A command's subjects (`fathom bench model`): a file each. */
struct command_subject {
    const char *name, *summary;
    int (*run)(int argc, char **argv); /* argv[0] is the subject's name */
    const struct option_table *options;
};

struct program { /* it has tables of options, or subjects */
    const char *name, *summary;
    int (*run)(int argc, char **argv);
    const struct option_table *options; /* [option_table_count] */
    size_t option_table_count;
    const struct command_subject *subjects; /* [*subject_count] */
    const size_t *subject_count;            /* NULL: it has none */
};

/* The whole command line, argv[0] first, as the process was started. */
extern char **program_arguments;

/* False: the program is over (help was printed, or the error was) and *exit_code_out says how.
 * Reads the file of `--config` too, in builds with serving. */
bool command_begin(const struct option_table *table, int argc, char **argv, void *values,
                   struct option_result *result_out, int *exit_code_out);

/* One line for each option that is set and does nothing, for want of another (struct option, needs): to
 * stderr, or in the log of a command that has one. Ranks and units that a supervisor starts say nothing.
 * command_begin says it for commands without a log. */
void command_say_idle(const struct option_table *table, const void *values);

/* Prints "fathom serve: <error>" to stderr, behind what the log still has, or says so in the log where
 * that is JSON; returns EXIT_CODE_FAILED. */
int command_failed(const struct option_table *table, enum status status, const struct error *error);

/* command_failed for a command line that the options' rules cannot check ("--tokens and a prompt
 * exclude each other"): adds where to look; returns EXIT_CODE_USAGE. */
int command_misused(const struct option_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Says that `tool` ("fathom", "fathom bench") has no such `kind` of word ("command", "subject"), and
 * which one was probably meant; returns EXIT_CODE_USAGE. */
int command_unknown(const char *tool, const char *kind, const struct nearest *nearest);

/* Flushes stdout: EXIT_CODE_OK, or EXIT_CODE_FAILED with a line on stderr when the results could
 * not be written (a full disk, a closed pipe). Every program that prints results ends with it. */
int command_end(const struct option_table *table);

/* Writes a text to the file that the option names, new or over an old one; `path` NULL: to stdout.
 * `write` is called twice: to measure the text, and to form it. */
typedef void command_writer(struct json_writer *writer, const void *subject);
enum status command_write(const char *option, const char *path, command_writer *write,
                          const void *subject, struct error *error) MUST_USE;

/* All of standard input, as memory that the caller frees (free(out->data)). */
enum status command_take_input(struct bytes *out, struct error *error) MUST_USE;

/* A row of commands that take messages; `member` of TYPE is a text, "on" or "off". */
#define CONTENT_SPECIALS_OPTION(TYPE, member)                                                      \
    OPTION_ROW("content-specials", OPTION_CHOICE, "off",                                           \
               "recognize special tokens in messages, too; off: they are plain text there, so "    \
               "that no message can forge a turn",                                                 \
               .offset = offsetof(TYPE, member), .choices = "on|off", .needs = "=tokens")

/* Another; `member` of TYPE is a path, or NULL. */
#define CHAT_TEMPLATE_OPTION(TYPE, member)                                                         \
    OPTION_ROW("chat-template", OPTION_TEXT, NULL,                                                 \
               "a file with a chat template (Jinja) instead of the model's own",                   \
               .offset = offsetof(TYPE, member), .needs = "=tokens")

/* Runs the subject that argv[1] names; prints help, or that there is none. Returns the exit code.
 */
int command_dispatch(const char *command, const struct command_subject *subjects, size_t count,
                     int argc, char **argv);

#endif
