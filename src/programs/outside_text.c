/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/outside_text.h"

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

void outside_text_json(struct json_print *print, const char *name, const char *text) {
    size_t room = 3 * strlen(text) + 1, count = 0; /* an invalid byte may become three */
    char *repaired = malloc(room);
    check(repaired && !utf8_repair(bytes_of(text), repaired, room, &count));
    json_print_string(print, name, (struct bytes){repaired, count});
    free(repaired);
}
