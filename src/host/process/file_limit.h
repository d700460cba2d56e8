/* SPDX-License-Identifier: Apache-2.0
 * How many files, sockets among them, this process may have open, and what is said when there are
 * no more: one line, however long that lasts.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Raises it to `wanted`, or as far as this user may, if it is lower; what it is then. Children
 * inherit it. */
uint64_t file_limit_raise(uint64_t wanted);

struct file_shortage { /* zeros at first */
    int64_t failed_ns; /* when a connection was last not taken */
};

/* Where a connection cannot be taken, for this errno: says so if the last time was long ago. True
 * if it did. */
bool file_limit_shortage_report(struct file_shortage *shortage, const char *where, int failure);
