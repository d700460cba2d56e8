/* SPDX-License-Identifier: Apache-2.0
 * Other programs as children of this one: run to their end for what they print, or started as
 * servers and stopped. What they print goes to unlinked files, so that none of them ever waits for
 * us to read. A child gets SIGTERM when this process ends, however it ends.
 */
#ifndef BENCH_CHILD_H
#define BENCH_CHILD_H

#include <stdio.h>
#include <sys/types.h>

#include "base/bytes.h"
#include "base/status.h"

struct child {
    pid_t pid;
    FILE *output; /* standard output; a server's standard error, too */
};

/* Runs argv (NULL at its end; argv[0] is a path, or a name to be found in PATH) to its end. Its
 * standard output, with a terminator behind, is the caller's to free. STATUS_IO when it cannot be
 * run or does not end with 0: the message has its last line. */
enum status child_run(const char *const *argv, struct bytes *output_out, struct error *error);

/* Starts argv and waits until its output has `mark`; copies what follows it up to white space.
 * STATUS_TIMEOUT after so many seconds, STATUS_IO when it ends before. */
enum status child_start(const char *const *argv, const char *mark, double seconds_max,
                        struct child *child_out, char *text_out, size_t text_bytes,
                        struct error *error);

/* SIGTERM, and SIGKILL if that does not help within ten seconds. */
void child_stop(struct child *child);

#endif
