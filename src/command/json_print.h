/* SPDX-License-Identifier: Apache-2.0
 * Prints one JSON document to stdout, value by value, and adds commas and brackets. The argument
 * `name` is the name of a member, or NULL for an element of an array and for the document.
 */
#pragma once

#include "base/bytes.h"

#define JSON_PRINT_DEPTH_MAX 16
#define JSON_PRINT_BYTES 4096

struct json_print {                  /* zeroed at the start */
    bool off;                        /* print no JSON: the results are text */
    bool more;                       /* the innermost object or array has a value */
    uint32_t depth;                  /* open objects and arrays */
    char ends[JSON_PRINT_DEPTH_MAX]; /* [depth] their closing brackets */
};

/* Opens the document, which is an object. If `json` is false, only json_print_say prints. */
struct json_print json_print_begin(bool json);

/* Prints text for people, unless the results are JSON. */
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
/* Prints several members or elements. The format (json_writer_print) includes their names and the
 * commas between them. At most JSON_PRINT_BYTES. */
void json_print_values(struct json_print *print, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints a number that the caller has formatted. */
void json_print_decimal(struct json_print *print, const char *name, const char *text);
