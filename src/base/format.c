/* SPDX-License-Identifier: Apache-2.0 */
#include "base/format.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

size_t format_va(char *out, size_t out_bytes, const char *format, va_list arguments) {
    check(out_bytes > 0);
    int wanted = vsnprintf(out, out_bytes, format, arguments);
    check(wanted >= 0);
    return (size_t)wanted < out_bytes ? (size_t)wanted : out_bytes - 1;
}

size_t format_text(char *out, size_t out_bytes, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    size_t written = format_va(out, out_bytes, format, arguments);
    va_end(arguments);
    return written;
}

/* ---- untrusted text ---- */

/* Decodes a character. *bytes_out is its length, or 0 if it is invalid. */
static uint32_t format_read_character(const uint8_t *text, uint32_t *bytes_out) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t bytes = text[0] < 0x80 ? 1 : text[0] >= 0xF0 ? 4 : text[0] >= 0xE0 ? 3 : 2;
    uint32_t code = bytes == 1 ? text[0] : text[0] & (0x7Fu >> bytes);
    *bytes_out = 0;
    if (text[0] >= 0x80 && (text[0] < 0xC2 || text[0] > 0xF4)) return 0;
    for (uint32_t i = 1; i < bytes; i++) {
        if ((text[i] & 0xC0) != 0x80) return 0;
        code = code << 6 | (text[i] & 0x3F);
    }
    if (code < least[bytes] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return 0;
    *bytes_out = bytes;
    return code;
}

/* False for control characters, characters without width, marks that change the direction, and
 * tags. */
static bool is_shown(uint32_t code) {
    static const struct {
        uint32_t first, last;
    } hidden[] = {{0, 0x1F},        {0x7F, 0x9F},     {0xAD, 0xAD},
                  {0x200B, 0x200F}, {0x2028, 0x202E}, {0x2060, 0x206F},
                  {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE0FFF}};
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        if (code >= hidden[i].first && code <= hidden[i].last) return false;
    return true;
}

struct shown { /* output so far, in whole pieces */
    char *out;
    size_t room, count;
    bool cut;
};

static void format_show(struct shown *shown, const char *piece, size_t bytes) {
    shown->cut |= shown->count + bytes >= shown->room;
    if (shown->cut) return;
    memcpy(shown->out + shown->count, piece, bytes);
    shown->count += bytes;
}

static void show_all(struct shown *shown, const char *text, bool quoted) {
    const uint8_t *at = (const uint8_t *)text;
    while (*at) {
        char escaped[8];
        uint32_t bytes, code = format_read_character(at, &bytes);
        if (bytes && is_shown(code)) {
            if (quoted && code == '"') format_show(shown, "\"", 1);
            format_show(shown, (const char *)at, bytes);
        } else {
            bytes = bytes ? bytes : 1;
            for (uint32_t i = 0; i < bytes; i++)
                format_show(shown, escaped, format_text(escaped, sizeof escaped, "\\x%02x", at[i]));
        }
        at += bytes;
    }
}

size_t format_visible(char *out, size_t out_bytes, const char *text) {
    struct shown shown = {.out = out, .room = out_bytes};
    check(out_bytes > 0);
    show_all(&shown, text, false);
    out[shown.count] = 0;
    return shown.count;
}

size_t format_cell(char *out, size_t out_bytes, const char *text) {
    bool is_formula = text[0] && strchr("=+-@\t\r", text[0]);
    bool quoted = strpbrk(text, ",\"\r\n") != NULL;
    struct shown shown = {.out = out, .room = out_bytes};
    check(out_bytes > 2);
    if (quoted) format_show(&shown, "\"", 1);
    if (is_formula) format_show(&shown, "'", 1);
    shown.room -= quoted; /* for the closing quote */
    show_all(&shown, text, quoted);
    if (quoted) out[shown.count++] = '"';
    out[shown.count] = 0;
    return shown.count;
}
