/* SPDX-License-Identifier: Apache-2.0 */
#include "command/json_print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/check.h"
#include "base/json_writer.h"

#define PIECE_BYTES 512 /* input bytes escaped at a time */

static void print_escaped(struct bytes text) {
    char out[6 * PIECE_BYTES];
    while (text.count) {
        size_t count = text.count < PIECE_BYTES ? text.count : PIECE_BYTES;
        while (count < text.count && count > 1 && ((unsigned char)text.data[count] & 0xC0) == 0x80)
            count--; /* split only between characters */
        struct json_writer writer = {.out = out, .room = sizeof out};
        json_writer_escaped(&writer, (struct bytes){text.data, count});
        fwrite(out, 1, writer.count, stdout);
        text = (struct bytes){text.data + count, text.count - count};
    }
}

static void print_string(struct bytes text) {
    putchar('"');
    print_escaped(text);
    putchar('"');
}

/* Prints what precedes a value. Returns false if nothing is to be printed. */
static bool json_print_begin(struct json_print *print, const char *name) {
    if (print->off) return false;
    if (print->more) putchar(',');
    print->more = true;
    if (!name) return true;
    print_string(bytes_of(name));
    putchar(':');
    return true;
}

void json_print_open(struct json_print *print, const char *name, char bracket) {
    check(print->depth < JSON_PRINT_DEPTH_MAX);
    if (!json_print_begin(print, name)) return;
    /* each element with values of its own starts a line */
    if (!name && print->depth) putchar('\n');
    putchar(bracket);
    print->ends[print->depth++] = bracket == '{' ? '}' : ']';
    print->more = false;
}

void json_print_close(struct json_print *print) {
    if (print->off) return;
    check(print->depth);
    putchar(print->ends[--print->depth]);
    print->more = true;
    if (!print->depth) putchar('\n');
}

void json_print_string(struct json_print *print, const char *name, struct bytes text) {
    if (json_print_begin(print, name)) print_string(text);
}

void json_print_text(struct json_print *print, const char *name, const char *text) {
    if (text)
        json_print_string(print, name, bytes_of(text));
    else
        json_print_decimal(print, name, "null");
}

void json_print_bool(struct json_print *print, const char *name, bool value) {
    json_print_decimal(print, name, value ? "true" : "false");
}

void json_print_integer(struct json_print *print, const char *name, int64_t value) {
    if (json_print_begin(print, name)) printf("%" PRId64, value);
}

void json_print_count(struct json_print *print, const char *name, uint64_t value) {
    if (json_print_begin(print, name)) printf("%" PRIu64, value);
}

void json_print_number(struct json_print *print, const char *name, double value, int digits) {
    if (!json_print_begin(print, name)) return;
    if (isfinite(value))
        printf("%.*g", digits, value);
    else
        fputs("null", stdout);
}

void json_print_decimal(struct json_print *print, const char *name, const char *text) {
    if (json_print_begin(print, name)) fputs(text, stdout);
}

void json_print_values(struct json_print *print, const char *format, ...) {
    char out[JSON_PRINT_BYTES];
    struct json_writer writer = {.out = out, .room = sizeof out};
    va_list arguments;
    if (!json_print_begin(print, NULL)) return;
    va_start(arguments, format);
    json_writer_print_va(&writer, format, &arguments);
    va_end(arguments);
    check(json_writer_fits(&writer));
    fwrite(out, 1, writer.count, stdout);
}
