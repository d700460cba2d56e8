/* SPDX-License-Identifier: Apache-2.0
 * The one door to printf-style formatting into memory, so that the pure rooms (policy, cache, unit,
 * gateway, text) need not link stdio themselves. Always terminates; returns the bytes written,
 * without the terminator (a cut text is shorter than what was asked for).
 */
#ifndef BASE_FORMAT_H
#define BASE_FORMAT_H

#include <stdarg.h>
#include <stddef.h>

size_t format_text(char *out, size_t out_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Text that others wrote, such as a name out of a file, as a terminal may have it: control characters,
 * marks that turn or hide text, and what is no UTF-8 are written \xNN. */
size_t format_visible(char *out, size_t out_bytes, const char *text);

/* The same as a cell of a CSV file: in quotes where it needs them, and behind a ' where a spreadsheet
 * would take it for a formula. */
size_t format_cell(char *out, size_t out_bytes, const char *text);

/* A text needs at most so many bytes in either form, its end included. */
#define FORMAT_SAFE_BYTES(text_bytes) (4 * (text_bytes) + 4)

size_t format_va(char *out, size_t out_bytes, const char *format, va_list arguments);

#endif
