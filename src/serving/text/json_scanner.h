/* SPDX-License-Identifier: Apache-2.0
 * Follows one JSON value (RFC 8259) byte by byte, in memory of fixed size: says where it ends, and
 * where a text stops being one. It keeps nothing of the value. Bytes of strings are not checked to
 * be UTF-8.
 */
#ifndef SERVING_TEXT_JSON_SCANNER_H
#define SERVING_TEXT_JSON_SCANNER_H

#include <stdbool.h>
#include <stdint.h>

#define JSON_SCANNER_DEPTH_MAX 256 /* a deeper value is broken */

enum json_state {
    JSON_VALUE,      /* a value is to come (the start) */
    JSON_FIRST_ITEM, /* a value or ']' */
    JSON_FIRST_KEY,  /* a key or '}' */
    JSON_KEY,        /* a key */
    JSON_COLON,
    JSON_AFTER, /* ',' or what ends the container */
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

/* Zero it to start. */
struct json_scanner {
    uint8_t state; /* enum json_state */
    bool in_key;   /* the string is a key */
    bool tolerant; /* set by the caller: strings may have raw control bytes, as models write them */
    uint8_t left;  /* hex digits to come; letters of a literal seen */
    char literal;  /* its first letter */
    uint16_t depth;
    uint8_t objects[JSON_SCANNER_DEPTH_MAX / 8]; /* a bit each level: an object, else an array */
};

/* Takes one more byte. False: the text is no JSON value with it. */
bool json_scanner_next(struct json_scanner *scanner, char byte);

/* True if the text so far is one value, with optional whitespace around it. (A number may still
 * continue.) */
bool json_scanner_is_whole(const struct json_scanner *scanner);

bool json_scanner_in_number(const struct json_scanner *scanner);

#endif
