/* SPDX-License-Identifier: Apache-2.0
 * The words of a command line, for exec or for a shell.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define COMMAND_LINE_WORDS 192

struct command_line { /* NULL at the end */
    const char *words[COMMAND_LINE_WORDS + 1];
    size_t count;
};

/* Appends words. Return false if the line is full; it then has as many as fit. A line that is full
 * accepts no further word. */
bool command_line_add(struct command_line *line, const char *word);
bool command_line_add_all(struct command_line *line, const char *const *words);

/* Appends a word in single quotes for a shell. Returns false if there is not enough room; the text
 * is then unchanged. */
bool command_line_quote(char *text, size_t room, const char *word);
