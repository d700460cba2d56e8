/* SPDX-License-Identifier: Apache-2.0
 * Characters as Python's str knows them: properties, case, and UTF-8 that is known to be valid.
 */
#ifndef SERVING_JINJA_UNICODE_H
#define SERVING_JINJA_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum unicode_property {
    UNICODE_ALPHA = 1,
    UNICODE_DECIMAL = 2,
    UNICODE_DIGIT = 4,
    UNICODE_NUMERIC = 8,
    UNICODE_IS_LOWER = 16,
    UNICODE_IS_UPPER = 32,
    UNICODE_IS_TITLE = 64, /* a letter of title case alone */
    UNICODE_PRINTABLE = 128,
    UNICODE_SPACE = 256,
    UNICODE_IGNORABLE = 512, /* looked through for the last sigma of a word */
    UNICODE_CASED = 1024,
    UNICODE_NAME_START = 2048,
    UNICODE_NAME_PART = 4096,
    UNICODE_ALNUM = UNICODE_ALPHA | UNICODE_DECIMAL | UNICODE_DIGIT | UNICODE_NUMERIC
};

/* The set of a character's properties. */
unsigned unicode_properties(uint32_t character);

enum unicode_mapping { UNICODE_TO_UPPER, UNICODE_TO_LOWER, UNICODE_TO_TITLE, UNICODE_TO_FOLD };

/* Writes 1 to 3 characters, returns how many. The sigma at a word's end is the caller's affair. */
unsigned unicode_map(uint32_t character, enum unicode_mapping mapping, uint32_t out[3]);

/* The character that begins at `data` (valid UTF-8), and its bytes. */
static inline uint32_t unicode_read(const char *data, unsigned *bytes_out) {
    const uint8_t *at = (const uint8_t *)data;
    if (at[0] < 0x80) {
        *bytes_out = 1;
        return at[0];
    }
    if (at[0] < 0xE0) {
        *bytes_out = 2;
        return (uint32_t)(at[0] & 0x1F) << 6 | (at[1] & 0x3F);
    }
    if (at[0] < 0xF0) {
        *bytes_out = 3;
        return (uint32_t)(at[0] & 0x0F) << 12 | (uint32_t)(at[1] & 0x3F) << 6 | (at[2] & 0x3F);
    }
    *bytes_out = 4;
    return (uint32_t)(at[0] & 0x07) << 18 | (uint32_t)(at[1] & 0x3F) << 12 |
           (uint32_t)(at[2] & 0x3F) << 6 | (at[3] & 0x3F);
}

/* UTF-8 of a character; returns its bytes. */
unsigned unicode_write(uint32_t character, char out[4]);

/* Characters in valid UTF-8. */
size_t unicode_count(const char *data, size_t bytes);

/* Whether the bytes are UTF-8 throughout. */
bool unicode_valid(const char *data, size_t bytes);

#endif
