/* SPDX-License-Identifier: Apache-2.0
 * enum status: operational errors, which every caller must check. The function that detects an
 * error writes the message into struct error. Callers only return the status.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>

enum status {
    STATUS_OK = 0,
    STATUS_FULL,        /* back-pressure: the caller keeps its item and retries */
    STATUS_INVALID,     /* external input violates a rule, which struct error names */
    STATUS_CORRUPT,     /* data fails an integrity check (truncated, bad checksum, NaN scale) */
    STATUS_UNSUPPORTED, /* well-formed, but not supported */
    STATUS_NOT_FOUND,
    STATUS_TOO_LARGE, /* beyond a limit */
    STATUS_NO_MEMORY,
    STATUS_IO,
    STATUS_TIMEOUT,
    STATUS_GONE, /* the peer or the request no longer exists */
    STATUS_COUNT
};

#define MUST_USE __attribute__((warn_unused_result))

/* A message for users: one line that names the object, the expected and found values, and the
 * remedy. */
struct error {
    char text[512];
};

/* error_set(error, status, format, ...): writes the message (truncated if too long) and returns
 * `status`. `error` may be NULL. It is a macro so that compiler and analyzer see the returned
 * status. */
#define error_set(error, status, ...)                                                              \
    error_returned(status_error_write((error), __VA_ARGS__), (status))

size_t status_error_write(struct error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline enum status error_returned(size_t written, enum status status) {
    (void)written;
    return status;
}

/* Short lower-case name, e.g. "not found". */
const char *status_name(enum status status);
