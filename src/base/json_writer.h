/* SPDX-License-Identifier: Apache-2.0
 * Writes JSON into a fixed-size buffer. The caller writes the punctuation as plain text, and the
 * writer escapes strings. It never writes more than `room` bytes but continues to count, so a
 * caller can measure the output first (room 0) and then write it.
 */
#pragma once

#include <stdint.h>

#include <stdarg.h>

#include "base/bytes.h"

struct json_writer {
    char *out; /* may be NULL if room is 0 */
    size_t room;
    size_t count; /* bytes of the whole output; > room: it was truncated */
};

static inline bool json_writer_fits(const struct json_writer *writer) {
    return writer->count <= writer->room;
}

/* Writes text verbatim. */
void json_writer_text(struct json_writer *writer, const char *text);
void json_writer_bytes(struct json_writer *writer, struct bytes text);

/* Writes the inside of a string: valid UTF-8, escaped as RFC 8259 requires. A string may be written
 * in pieces if each piece has whole characters. */
void json_writer_escaped(struct json_writer *writer, struct bytes text);

/* Writes a string with its quotes. */
void json_writer_string(struct json_writer *writer, struct bytes text);

void json_writer_unsigned(struct json_writer *writer, uint64_t value);
void json_writer_integer(struct json_writer *writer, int64_t value);

/* printf for JSON: %s is verbatim text, %.*s is escaped for the inside of a string (for struct
 * bytes: PRINT_BYTES), %u is a uint32_t, %lu a uint64_t; %%, other numbers, and strings with a
 * width (up to 1023 bytes) are as in printf. */
void json_writer_print(struct json_writer *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void json_writer_print_va(struct json_writer *writer, const char *format, va_list *arguments);

#define PRINT_BYTES(text) (int)(text).count, (text).data

_Static_assert(sizeof(long) == sizeof(uint64_t), "%lu prints a uint64_t");

/* Bytes that json_writer_escaped would write. */
size_t json_writer_escaped_count(struct bytes text);
