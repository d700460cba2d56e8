/* SPDX-License-Identifier: Apache-2.0
 * Prints an answer as it arrives, for `chat` and `generate`. A terminal gets lines that break
 * between words, and no control character or mark that hides or reorders text: those are printed as
 * \xNN. Anything else gets the text as it is.
 *
 * Thoughts are apart from the answer. On a terminal they are dimmed, or, with NO_COLOR or on a dumb
 * terminal, each line begins with "| ". If stdout is no terminal, it gets the answer alone, and
 * stderr the thoughts.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/bytes.h"

#define ANSWER_VIEW_WORD_BYTES 4096

/* One output stream. A word is printed when it is complete. */
struct answer_lines {
    FILE *out;
    const char *prefix; /* of each line; NULL: none */
    bool verbatim;      /* the output is no terminal */
    bool wrapped;       /* the current line began by wrapping */
    unsigned width;     /* of a line; chosen by every push */
    unsigned column, spaces, word_width;
    size_t word_bytes;
    char word[ANSWER_VIEW_WORD_BYTES];
};

enum answer_part { ANSWER_NONE, ANSWER_THOUGHT, ANSWER_TEXT };

struct answer_view {
    struct answer_lines text, thought;
    bool colour;           /* of thoughts */
    bool may_wait;         /* stderr is a terminal that can erase a line */
    bool waits;            /* it shows a line of answer_view_wait */
    enum answer_part part; /* the last one printed */
};

/* Chooses where the parts are printed, and UTF-8 as this thread's locale. */
void answer_view_open(struct answer_view *view);

/* Begins an answer. */
void answer_view_begin(struct answer_view *view);
/* Shows a line that describes the wait for the answer, in place of the former one. It disappears
 * with the answer's first character. Nothing is printed if stderr is no such terminal. */
void answer_view_wait(struct answer_view *view, const char *text);
/* Prints whole characters of a part. */
void answer_view_push(struct answer_view *view, enum answer_part part, struct bytes text);
/* Prints what is pending and ends the last line of thoughts that are on stderr. Returns false if
 * the answer had no text. */
bool answer_view_finish(struct answer_view *view);

/* Adds text to lines; `columns` is the terminal's width. For tests. */
void answer_view_push_lines(struct answer_lines *lines, unsigned columns, struct bytes text);
void answer_view_flush_lines(struct answer_lines *lines);
