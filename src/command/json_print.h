/* SPDX-License-Identifier: Apache-2.0
 * Prints one JSON document to stdout value by value, with its commas and brackets.
 * base/json_writer.h escapes strings. `name` is the name of a member; NULL: an element of an array,
 * or the document.
 */
#pragma once

#include "base/bytes.h"

#define JSON_PRINT_DEPTH_MAX 16
#define JSON_PRINT_BYTES 4096

struct json_print {                  /* zeroed at the start */
    bool off;                        /* print nothing: the results are text */
    bool more;                       /* the innermost object or array has a value */
    uint32_t depth;                  /* open objects and arrays */
    char ends[JSON_PRINT_DEPTH_MAX]; /* [depth] their closing brackets */
};

/* Opens the document, an object. `json` false: prints nothing but text (json_print_say). */
struct json_print json_print_begin(bool json);

/* Prints text for people; nothing if there is JSON. */
void json_print_say(const struct json_print *print, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Opens an object or array; `bracket` is '{' or '['. */
void json_print_open(struct json_print *print, const char *name, char bracket);
/* Closes the innermost object or array. A newline follows the outermost. */
void json_print_close(struct json_print *print);

void json_print_string(struct json_print *print, const char *name, struct bytes text);
void json_print_text(struct json_print *print, const char *name, const char *text); /* NULL: null */
void json_print_bool(struct json_print *print, const char *name, bool value);
void json_print_integer(struct json_print *print, const char *name, int64_t value);
void json_print_count(struct json_print *print, const char *name, uint64_t value);
/* Prints `digits` significant digits, or null if the value is not finite. */
void json_print_number(struct json_print *print, const char *name, double value, int digits);
/* Prints members, or elements, with their names and the commas between them, in
 * json_writer_print's format; at most JSON_PRINT_BYTES. */
void json_print_values(struct json_print *print, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints a number that the caller has formatted. */
void json_print_decimal(struct json_print *print, const char *name, const char *text);
