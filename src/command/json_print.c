/* SPDX-License-Identifier: Apache-2.0 */
#include "command/json_print.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
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
static bool begin_value(struct json_print *print, const char *name) {
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
    if (!begin_value(print, name)) return;
    /* each element with values of its own starts a line */
    if (!name && print->depth) putchar('\n');
    putchar(bracket);
    print->ends[print->depth++] = bracket == '{' ? '}' : ']';
    print->more = false;
}

struct json_print json_print_begin(bool json) {
    struct json_print print = {.off = !json};
    json_print_open(&print, NULL, '{');
    return print;
}

void json_print_say(const struct json_print *print, const char *format, ...) {
    va_list arguments;
    if (!print->off) return;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
}

void json_print_close(struct json_print *print) {
    if (print->off) return;
    check(print->depth);
    putchar(print->ends[--print->depth]);
    print->more = true;
    if (!print->depth) putchar('\n');
}

void json_print_string(struct json_print *print, const char *name, struct bytes text) {
    if (begin_value(print, name)) print_string(text);
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
    if (begin_value(print, name)) printf("%" PRId64, value);
}

void json_print_count(struct json_print *print, const char *name, uint64_t value) {
    if (begin_value(print, name)) printf("%" PRIu64, value);
}

void json_print_number(struct json_print *print, const char *name, double value, int digits) {
    if (!begin_value(print, name)) return;
    if (isfinite(value))
        printf("%.*g", digits, value);
    else
        fputs("null", stdout);
}

void json_print_decimal(struct json_print *print, const char *name, const char *text) {
    if (begin_value(print, name)) fputs(text, stdout);
}

void json_print_values(struct json_print *print, const char *format, ...) {
    char out[JSON_PRINT_BYTES];
    struct json_writer writer = {.out = out, .room = sizeof out};
    va_list arguments;
    if (!begin_value(print, NULL)) return;
    va_start(arguments, format);
    json_writer_print_va(&writer, format, &arguments);
    va_end(arguments);
    check(json_writer_fits(&writer));
    fwrite(out, 1, writer.count, stdout);
}
