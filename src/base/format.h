/* SPDX-License-Identifier: Apache-2.0
 * printf-style formatting into memory. Pure modules (policy, cache, unit, gateway, text) use it
 * instead of stdio. The output is always terminated and truncated if it does not fit. Returns the
 * bytes written, without the terminator.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>

size_t format_text(char *out, size_t out_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Escapes untrusted text, such as a name from a file, for a terminal: control characters, marks
 * that reorder or hide text, and invalid UTF-8 are written as \xNN. */
size_t format_visible(char *out, size_t out_bytes, const char *text);

/* Escapes untrusted text for a cell of a CSV file: quotes it if necessary, and prefixes ' if a
 * spreadsheet would interpret it as a formula. */
size_t format_cell(char *out, size_t out_bytes, const char *text);

/* The largest output of format_visible and format_cell, terminator included. */
#define FORMAT_SAFE_BYTES(text_bytes) (4 * (text_bytes) + 4)

size_t format_va(char *out, size_t out_bytes, const char *format, va_list arguments);
