/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/command_line.h"

#include <string.h>

bool command_line_add(struct command_line *line, const char *word) {
    if (line->count == COMMAND_LINE_WORDS) return false;
    line->words[line->count++] = word;
    line->words[line->count] = NULL;
    return true;
}

bool command_line_add_all(struct command_line *line, const char *const *words) {
    bool fits = true;
    for (; fits && words && *words; words++)
        fits = command_line_add(line, *words);
    return fits;
}

bool command_line_quote(char *text, size_t room, const char *word) {
    size_t before = strlen(text), at = before;
    bool fits = at + 2 < room;
    if (fits) text[at++] = '\'';
    for (; fits && *word; word++) {
        const char *piece = *word == '\'' ? "'\\''" : (char[]){*word, 0};
        size_t bytes = strlen(piece);
        fits = at + bytes + 2 < room;
        if (fits) memcpy(text + at, piece, bytes);
        at += bytes;
    }
    if (fits) text[at++] = '\'';
    text[fits ? at : before] = 0;
    return fits;
}
