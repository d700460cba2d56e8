/* SPDX-License-Identifier: Apache-2.0
 * UTF-8: characters and invalid parts. An invalid part is as long as the Unicode standard
 * recommends (section 3.9, "substitution of maximal subparts"; the WHATWG decoder and Rust's
 * from_utf8_lossy do the same), and one U+FFFD replaces each part.
 */
#pragma once

#include "base/bytes.h"
#include "base/json_writer.h"
#include "base/status.h"

#define UTF8_BYTES_MAX 4
#define UTF8_REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */
#define UTF8_REPLACEMENT_BYTES 3

enum utf8_kind {
    UTF8_WHOLE,   /* a character */
    UTF8_INVALID, /* invalid, regardless of the following text */
    UTF8_CUT,     /* the text ends inside a possible character */
    UTF8_KIND_COUNT
};

/* Decodes the first character of a valid text and returns its number of bytes. */
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

/* Writes a character and returns its number of bytes. */
static inline unsigned utf8_write(uint32_t character, char out[UTF8_BYTES_MAX]) {
    if (character < 0x80) {
        out[0] = (char)character;
        return 1;
    }
    unsigned count = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (unsigned i = count - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (character & 0x3F));
        character >>= 6;
    }
    out[0] = (char)((0xF00 >> count & 0xFF) | character);
    return count;
}

/* The number of characters of a valid text (bytes that begin a character). */
size_t utf8_count(struct bytes text);

/* The kind of character at the start of `text` (not empty), and its length in bytes (>= 1). */
enum utf8_kind utf8_next(struct bytes text, size_t *bytes_out);

/* The length of the longest valid prefix in bytes. */
size_t utf8_valid_prefix(struct bytes text);

/* Copies `text` with U+FFFD for each invalid part, including an incomplete character at the end.
 * Returns STATUS_FULL if the capacity is too small. *count_out is the number of bytes needed in
 * both cases. */
enum status utf8_repair(struct bytes text, char *out, size_t capacity, size_t *count_out) MUST_USE;

/* Writes `text`, repaired as utf8_repair does, as a JSON string. */
void utf8_write_repaired(struct json_writer *writer, struct bytes text);

/* Joins text from pieces of any length: outputs whole characters in the longest possible runs, with
 * U+FFFD for each invalid part. Initialize with zeros. */
struct utf8_joiner {
    char pending[UTF8_BYTES_MAX]; /* incomplete character */
    uint32_t pending_count;
};

typedef void utf8_sink(void *context, struct bytes text); /* text is never empty */

void utf8_join(struct utf8_joiner *joiner, struct bytes piece, utf8_sink *sink, void *context);
/* Ends the text: pending bytes are invalid. */
void utf8_join_end(struct utf8_joiner *joiner, utf8_sink *sink, void *context);
