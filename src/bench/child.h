/* SPDX-License-Identifier: Apache-2.0
 * Other programs as children of this one: run to their end for their output, or started as servers
 * and stopped. Their output goes to unlinked files, so that a child never blocks on our reading. A
 * child gets SIGTERM when this process ends for any reason.
 */
#ifndef BENCH_CHILD_H
#define BENCH_CHILD_H

#include <stdio.h>
#include <sys/types.h>

#include "base/bytes.h"
#include "base/status.h"

struct child {
    pid_t pid;
    FILE *output; /* standard output; for a server standard error, too */
};

/* Runs argv (terminated by NULL; argv[0] is a path, or a name to look up in PATH) to its end. The
 * caller frees its standard output, which has a terminator. Returns STATUS_IO if it cannot be run
 * or does not end with 0. The message has its last line. */
enum status child_run(const char *const *argv, struct bytes *output_out, struct error *error);

/* Starts argv and waits until its output has `mark`. Copies the text after it up to white space.
 * Returns STATUS_TIMEOUT after so many seconds, and STATUS_IO if it ends before. */
enum status child_start(const char *const *argv, const char *mark, double seconds_max,
                        struct child *child_out, char *text_out, size_t text_bytes,
                        struct error *error);

/* Sends SIGTERM, and SIGKILL if it does not end within ten seconds. */
void child_stop(struct child *child);

#endif
