/* SPDX-License-Identifier: Apache-2.0
 * enum status: misfortunes, which every caller must look at. Who first knows the exact cause writes
 * it into struct error, with the thing's name and the cure; callers only pass it up.
 */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include <stdarg.h>
#include <stddef.h>

enum status {
    STATUS_OK = 0,
    STATUS_FULL,        /* back-pressure: the caller keeps its item and tries again */
    STATUS_INVALID,     /* outside input breaks a rule; struct error says which */
    STATUS_CORRUPT,     /* data fails its own check (truncated, bad checksum, NaN scale) */
    STATUS_UNSUPPORTED, /* well-formed, but not something we serve */
    STATUS_NOT_FOUND,
    STATUS_TOO_LARGE, /* beyond a limit */
    STATUS_NO_MEMORY,
    STATUS_IO,
    STATUS_TIMEOUT,
    STATUS_GONE, /* the peer or the request no longer exists */
    STATUS_COUNT
};

#define MUST_USE __attribute__((warn_unused_result))

/* Message for a person: one line, names the thing, what was expected and found, and the cure. */
struct error {
    char text[512];
};

/* error_set(error, status, format, ...): writes the message (cut at its end if too long) and
 * returns `status`. `error` may be NULL. A macro, so that compiler and analyzer see which status
 * comes back. */
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

#endif
