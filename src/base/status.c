/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

#include "base/check.h"
#include "base/format.h"

size_t status_error_write(struct error *error, const char *format, ...) {
    if (!error) return 0;
    va_list arguments;
    va_start(arguments, format);
    size_t written = format_va(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    /* Names and quotations of outside text may contain any byte; a message must stay one line. */
    for (char *at = error->text; *at; at++)
        if ((unsigned char)*at < 32 || *at == 127) *at = '?';
    return written;
}

const char *status_name(enum status status) {
    static const char *const names[STATUS_COUNT] = {
        [STATUS_OK] = "ok",
        [STATUS_FULL] = "full",
        [STATUS_INVALID] = "invalid",
        [STATUS_CORRUPT] = "corrupt",
        [STATUS_UNSUPPORTED] = "unsupported",
        [STATUS_NOT_FOUND] = "not found",
        [STATUS_TOO_LARGE] = "too large",
        [STATUS_NO_MEMORY] = "out of memory",
        [STATUS_IO] = "input/output error",
        [STATUS_TIMEOUT] = "timed out",
        [STATUS_GONE] = "gone",
    };
    check((unsigned)status < STATUS_COUNT);
    return names[status];
}
