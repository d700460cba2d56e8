/* SPDX-License-Identifier: Apache-2.0
 * A command of another program, waited for: what it prints, and whether it ended well and in time. For
 * Slurm's commands and for remote shells, which may hang.
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

/* False: it has no room. */
bool run_command_line_add(struct command_line *line, const char *word);

/* Writes the command's stdout to `out`, terminated, as far as `room` allows. IO: it did not start, or
 * ended with a code other than 0, and the message has its last line; TIMEOUT: it was killed after
 * timeout_ms. */
enum status run_command(const struct command_line *line, int timeout_ms, char *out, size_t room,
                        struct error *error) MUST_USE;

/* A word as a shell reads it: in single quotes. False: no room; the text is as it was. */
bool run_command_quote(char *text, size_t room, const char *word);

#endif
