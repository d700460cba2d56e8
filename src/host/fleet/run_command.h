/* SPDX-License-Identifier: Apache-2.0
 * Runs a command and waits for its output and its exit status, with a timeout. For Slurm's commands
 * and remote shells, which may hang.
 */
#ifndef HOST_FLEET_RUN_COMMAND_H
#define HOST_FLEET_RUN_COMMAND_H

#include "base/bytes.h"
#include "base/status.h"

#define RUN_COMMAND_WORDS 192

struct command_line { /* NULL at the end */
    const char *words[RUN_COMMAND_WORDS + 1];
    size_t count;
};

/* Appends a word. Returns false if the line is full. */
bool run_command_line_add(struct command_line *line, const char *word);

/* Runs a command and writes its stdout to `out`, terminated and truncated to `room`. Returns IO if
 * it did not start or exited with a code other than 0 (the message has its last line), TIMEOUT if
 * it was killed after timeout_ms. */
enum status run_command(const struct command_line *line, int timeout_ms, char *out, size_t room,
                        struct error *error) MUST_USE;

/* Appends a word in single quotes for a shell. Returns false if there is not enough room; the text
 * is then unchanged. */
bool run_command_quote(char *text, size_t room, const char *word);

#endif
