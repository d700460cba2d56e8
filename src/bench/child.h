/* SPDX-License-Identifier: Apache-2.0
 * Child processes. Programs are run to their end for their output, or started and stopped as
 * servers. Their output goes to unlinked files, so that a child never blocks because it is not
 * read. A child gets SIGTERM when this process ends for any reason.
 */
#pragma once

#include <stdio.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/tree.h"
#include "command/model_run.h"

#define CHILD_WORDS_MAX 48
#define CHILD_WORD_BYTES 600
#define CHILD_URL_BYTES 256

/* A command line with its memory. */
struct child_command {
    const char *argv[CHILD_WORDS_MAX + 1];
    char texts[CHILD_WORDS_MAX][CHILD_WORD_BYTES];
    size_t count;
};

/* Sets the command to this program itself with these arguments, which NULL ends. */
void child_own(struct child_command *command, const char *first, ...) __attribute__((sentinel));
/* Adds one argument. */
void child_add(struct child_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds "--NAME=VALUE"; nothing if the value is NULL. */
void child_add_option(struct child_command *command, const char *name, const char *value);
void child_add_count(struct child_command *command, const char *name, uint64_t value);

/* Adds the options that choose the model and how it runs. */
void child_add_model(struct child_command *command, const struct model_run_values *run);

struct child {
    pid_t pid;
    FILE *output; /* standard output; for a server standard error, too */
};

/* Runs argv (terminated by NULL; argv[0] is a path, or a name to look up in PATH) to its end. The
 * caller frees its standard output, which has a terminator. Returns STATUS_IO if it cannot be run
 * or does not end with 0. The message has its last line. */
enum status child_run(const char *const *argv, struct bytes *output_out, struct error *error);

/* The JSON that a child printed. */
struct child_document {
    void *memory;
    const struct tree *root;
};

/* Runs child_run and parses the output. The caller frees the document's memory. */
enum status child_read(const char *const *argv, const char *name,
                       struct child_document *document_out, struct error *error);

/* A member of an object; 0 if it is no number. */
double child_number(const struct tree *object, const char *name);

/* Starts argv and waits until its output has `mark`. Copies the text after it up to white space.
 * Returns STATUS_TIMEOUT after seconds_max, and STATUS_IO if it ends before. */
enum status child_start(const char *const *argv, const char *mark, double seconds_max,
                        struct child *child_out, char *text_out, size_t text_bytes,
                        struct error *error);

/* Starts a server of loopback that prints its port as `fathom serve` does, and forms its URL. */
enum status child_serve(const char *const *argv, struct child *child_out,
                        char url_out[CHILD_URL_BYTES], struct error *error);

/* Sends SIGTERM, and SIGKILL if it does not end within ten seconds. */
void child_stop(struct child *child);
