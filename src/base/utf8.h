/* SPDX-License-Identifier: Apache-2.0
 * UTF-8: finding characters, and what is not one. An invalid part is as long as the Unicode
 * standard recommends (section 3.9, "substitution of maximal subparts"; the WHATWG decoder and
 * Rust's from_utf8_lossy do the same), so one U+FFFD stands for each part.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/bytes.h"
#include "base/json_writer.h"
#include "base/status.h"

#define UTF8_BYTES_MAX 4
#define UTF8_REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */
#define UTF8_REPLACEMENT_BYTES 3

enum utf8_kind {
    UTF8_WHOLE,   /* a character */
    UTF8_INVALID, /* no text that follows can make it one */
    UTF8_CUT,     /* the text ends inside what may become a character */
    UTF8_KIND_COUNT
};

/* The character at `data`, which begins one of a valid text, and its bytes. */
static inline uint32_t utf8_read(const char *data, unsigned *bytes_out) {
    const uint8_t *at = (const uint8_t *)data;
    if (at[0] < 0x80) {
        *bytes_out = 1;
        return at[0];
    }
    unsigned count = at[0] < 0xE0 ? 2 : at[0] < 0xF0 ? 3 : 4;
    uint32_t character = at[0] & (0x7Fu >> count);
    for (unsigned i = 1; i < count; i++)
        character = character << 6 | (at[i] & 0x3Fu);
    *bytes_out = count;
    return character;
}

/* Writes a character, returns its bytes. */
unsigned utf8_write(uint32_t character, char out[UTF8_BYTES_MAX]);

/* Bytes that begin a character: the characters of a valid text. */
size_t utf8_count(struct bytes text);

/* The kind of character at the start of `text` (not empty), and its length in bytes (>= 1). */
enum utf8_kind utf8_next(struct bytes text, size_t *bytes_out);

/* Bytes of the longest valid prefix. */
size_t utf8_valid_prefix(struct bytes text);

/* Copies `text` with U+FFFD for each invalid part, the cut one at the end included. STATUS_FULL
 * when capacity is short. *count_out is, in both cases, the bytes needed. */
enum status utf8_repair(struct bytes text, char *out, size_t capacity, size_t *count_out) MUST_USE;

/* Writes `text`, repaired as utf8_repair does, as a JSON string. */
void utf8_write_repaired(struct json_writer *writer, struct bytes text);

/* Joins text that comes in pieces of any length: puts out whole characters, in runs as long as they
 * come, with U+FFFD for each invalid part. Zero it to start. */
struct utf8_joiner {
    char pending[UTF8_BYTES_MAX]; /* the start of a character */
    uint32_t pending_count;
};

typedef void utf8_sink(void *context, struct bytes text); /* text is never empty */

void utf8_join(struct utf8_joiner *joiner, struct bytes piece, utf8_sink *sink, void *context);
/* The text ends: what is pending is invalid. */
void utf8_join_end(struct utf8_joiner *joiner, utf8_sink *sink, void *context);

#endif
