/* SPDX-License-Identifier: Apache-2.0 */
#include "base/format.h"

#include <stdio.h>

#include "base/check.h"

size_t format_va(char *out, size_t out_bytes, const char *format, va_list arguments) {
    check(out_bytes > 0);
    int wanted = vsnprintf(out, out_bytes, format, arguments);
    check(wanted >= 0);
    return (size_t)wanted < out_bytes ? (size_t)wanted : out_bytes - 1;
}

size_t format_text(char *out, size_t out_bytes, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    size_t written = format_va(out, out_bytes, format, arguments);
    va_end(arguments);
    return written;
}
