/* SPDX-License-Identifier: Apache-2.0
 * The code that all subcommands share. It finds the command, reads its options, prints errors to
 * stderr with the command's name as a prefix, and defines the exit codes. A process runs one
 * command.
 */
#pragma once

#include "base/json_writer.h"
#include "base/nearest.h"
#include "base/options.h"

enum exit_code {
    EXIT_CODE_OK = 0,
    EXIT_CODE_FAILED = 1, /* the work failed: bad checkpoint, I/O error, rejected request */
    EXIT_CODE_USAGE = 2,  /* the command line or the configuration file is wrong */
};

/* Runs a command with the values of its options. Returns the exit code. */
typedef int command_action(void *values, const struct option_result *result);

/* A command of the binary, or a subcommand (a subject), such as `model` in `fathom bench model`. It
 * has either options or subjects. A command without a name ends a list. */
struct command {
    const char *name, *summary;
    command_action *run;
    const struct option_table *options;
    const struct command *subjects; /* NULL: none */
};

/* The command line of the process, starting with argv[0]. */
extern char **program_arguments;

/* Parses the options and, in builds with serving, the file of `--config`. Returns false if the
 * program must exit with *exit_code_out, because it has printed the help or an error. */
bool command_begin(const struct option_table *table, int argc, char **argv, void *values,
                   struct option_result *result_out, int *exit_code_out);

/* Parses the options and runs the command or the subject named by argv[1], or prints help or an
 * error. argv[0] is the command's name. Returns the exit code. */
int command_run(const struct command *command, int argc, char **argv);

/* Runs the command named by argv[1]. If the list has none of that name, reports an unknown `kind`
 * ("command", "subject") of `tool` ("fathom", "fathom bench") and suggests the nearest name. */
int command_dispatch(const char *tool, const char *kind, const struct command *list,
                     struct nearest *nearest, int argc, char **argv);

/* Iterates over the subcommands of a command: its subjects, or the command itself if it has none.
 * Starts with `before` NULL and returns NULL at the end. */
const struct command *command_next_subcommand(const struct command *command,
                                              const struct command *before);

/* The command that this process runs: "bench model". */
const char *command_name(void);

/* Warns about each option that is set but has no effect (`needs` in struct option), with one line
 * each on stderr or in the log. Ranks and units started by a supervisor do not warn. command_begin
 * calls it for commands without a log. */
void command_warn_idle(const void *values);

/* Reports an error that ends the command: prints "fathom serve: <error>" to stderr after the rest
 * of the log, or writes it to a JSON log. Returns EXIT_CODE_FAILED. */
int command_failed(enum status status, const struct error *error);

/* command_failed for an error that option rules cannot detect ("--tokens and a prompt are mutually
 * exclusive"). Adds a reference to --help. Returns EXIT_CODE_USAGE. */
int command_misused(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The end of every program that prints results: flushes stdout and returns EXIT_CODE_OK, or
 * EXIT_CODE_FAILED with a line on stderr if they could not be written (a full disk, a closed pipe).
 * With an error: command_failed. */
int command_end(enum status status, const struct error *error);

/* Writes text to the file given by the option, replacing it if it exists, or to stdout if `path` is
 * NULL. Calls `write` twice: to measure the text, and to write it. */
typedef void command_writer(struct json_writer *writer, const void *subject);
enum status command_write(const char *option, const char *path, command_writer *write,
                          const void *subject, struct error *error) MUST_USE;
/* Writes a text to a new file that this user alone may read. Unless `replaces`, an existing file
 * stays, and the error names the command that replaces it, `name` with "!". A replaced file keeps
 * its mode. */
enum status command_write_private(const char *name, const char *path, bool replaces,
                                  command_writer *write, const void *subject,
                                  struct error *error) MUST_USE;

/* Reads standard input to its end. The caller frees out->data. */
enum status command_read_input(struct bytes *out, struct error *error) MUST_USE;

/* Calls `take` for each line of standard input that is not blank. Flushes stdout after each line,
 * because a program at the other end may wait for it. Stops at the first line that fails: `take`
 * sets *error, and the line number is added. */
enum status command_read_lines(enum status (*take)(void *context, struct bytes line), void *context,
                               struct error *error) MUST_USE;

/* An option row for commands that accept messages. `member` of TYPE becomes "on" or "off". */
#define CONTENT_SPECIALS_OPTION(TYPE, member)                                                      \
    OPTION_ROW("content-specials", OPTION_CHOICE, "off",                                           \
               "recognize special tokens in messages, too; off: they are plain text there, so "    \
               "that no message can forge a turn",                                                 \
               .offset = offsetof(TYPE, member), .choices = "on|off", .needs = "=tokens")

/* An option row for commands that accept messages. `member` of TYPE becomes a path or NULL. */
#define CHAT_TEMPLATE_OPTION(TYPE, member)                                                         \
    OPTION_ROW("chat-template", OPTION_TEXT, NULL, CHAT_TEMPLATE_HELP,                             \
               .offset = offsetof(TYPE, member), .needs = "=tokens")
#define CHAT_TEMPLATE_HELP                                                                         \
    "a file with a chat template (Jinja) instead of the model's own, or the name of a built-in "   \
    "one (`fathom template --list`)"

/* An option row for commands that accept tools. `member` of TYPE becomes "auto" or "off". */
#define TOOLS_TEMPLATE_OPTION(TYPE, member)                                                        \
    OPTION_ROW("tools-template", OPTION_CHOICE, "auto",                                            \
               "what to do with tools if the chat template has no place for them: auto: use the "  \
               "built-in template that suits the model; off: refuse them",                         \
               .offset = offsetof(TYPE, member), .choices = "auto|off")
