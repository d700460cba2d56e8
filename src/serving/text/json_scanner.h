/* SPDX-License-Identifier: Apache-2.0
 * Validates one JSON value (RFC 8259) byte by byte, in memory of fixed size. It reports the end of
 * the value and the first invalid byte, and stores nothing of the value. Bytes of strings are not
 * checked to be UTF-8.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define JSON_SCANNER_DEPTH_MAX 256 /* a deeper value is invalid */

enum json_state {
    JSON_VALUE,      /* expects a value; the initial state */
    JSON_FIRST_ITEM, /* expects a value or ']' */
    JSON_FIRST_KEY,  /* expects a key or '}' */
    JSON_KEY,        /* expects a key */
    JSON_COLON,
    JSON_AFTER, /* expects ',' or the end of the container */
    JSON_STRING,
    JSON_ESCAPE,
    JSON_HEX,
    JSON_LITERAL, /* true, false, null */
    JSON_MINUS,
    JSON_ZERO,
    JSON_DIGITS,
    JSON_POINT,
    JSON_FRACTION,
    JSON_E,
    JSON_E_SIGN,
    JSON_EXPONENT,
    JSON_WHOLE, /* the value has ended; whitespace may follow */
    JSON_BROKEN,
    JSON_STATE_COUNT
};

/* Initialize with zeros. */
struct json_scanner {
    uint8_t state; /* enum json_state */
    bool in_key;   /* the string is a key */
    /* set by the caller: strings may have unescaped control characters, as models write them */
    bool tolerant;
    uint8_t left; /* JSON_HEX: digits still missing; JSON_LITERAL: letters seen */
    char literal; /* first letter of the literal */
    uint16_t depth;
    uint8_t objects[JSON_SCANNER_DEPTH_MAX / 8]; /* one bit per level: 1 object, 0 array */
};

/* Processes one more byte. Returns false if it makes the text invalid. */
bool json_scanner_next(struct json_scanner *scanner, char byte);

/* True if the text so far is one value, maybe with whitespace around it. A number may continue. */
bool json_scanner_is_whole(const struct json_scanner *scanner);

bool json_scanner_in_number(const struct json_scanner *scanner);
