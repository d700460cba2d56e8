/* SPDX-License-Identifier: Apache-2.0
 * The limit of open files (and sockets) of this process, and the log line when it is reached: one
 * line, however long the shortage lasts.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Raises the limit to at least `wanted`, as far as this user may. Returns the new limit. Children
 * inherit it. */
uint64_t file_limit_raise(uint64_t wanted);

struct file_shortage { /* zeros at first */
    int64_t failed_ns; /* time of the last connection that was not accepted */
};

/* Call it when a connection at `where` cannot be accepted because of errno `failure`. Logs a line
 * and returns true if the last failure was long ago. */
bool file_limit_shortage_report(struct file_shortage *shortage, const char *where, int failure);
