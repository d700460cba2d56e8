/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/outside_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/format.h"
#include "base/utf8.h"

static char *outside_text_as(const char *text,
                             size_t (*form)(char *out, size_t out_bytes, const char *text)) {
    size_t room = FORMAT_SAFE_BYTES(strlen(text));
    char *out = malloc(room);
    check(out);
    form(out, room, text);
    return out;
}

char *outside_text_visible(const char *text) {
    return outside_text_as(text, format_visible);
}

char *outside_text_cell(const char *text) {
    return outside_text_as(text, format_cell);
}

void outside_text_print_json(const char *text) {
    struct json_writer measured = {.room = 0};
    utf8_write_repaired(&measured, bytes_of(text));
    char *out = malloc(measured.count + 1);
    struct json_writer writer = {.out = out, .room = measured.count};
    check(out);
    utf8_write_repaired(&writer, bytes_of(text));
    fwrite(out, 1, writer.count, stdout);
    free(out);
}
