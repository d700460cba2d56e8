/* SPDX-License-Identifier: Apache-2.0 */
#include "programs/answer_view.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "base/format.h"
#include "base/number.h"
#include "base/utf8.h"

#define COLUMNS_DEFAULT 80
#define COLUMNS_MIN 10
#define TAB_COLUMNS 8

/* ---- lines ---- */

static void break_line(struct answer_lines *lines, bool wrapped) {
    putc('\n', lines->out);
    lines->column = lines->spaces = 0;
    lines->wrapped = wrapped;
}

static void begin_line(struct answer_lines *lines) {
    if (!lines->prefix) return;
    fputs(lines->prefix, lines->out);
    lines->column = (unsigned)strlen(lines->prefix);
}

/* Prints the pending word, on a new line if this one has no room for it. */
void answer_view_flush_lines(struct answer_lines *lines) {
    if (!lines->word_bytes) return;
    if (lines->column && lines->column + lines->spaces + lines->word_width > lines->width)
        break_line(lines, true);
    if (!lines->column) {
        if (lines->wrapped) lines->spaces = 0;
        begin_line(lines);
        lines->spaces = min_u32(lines->spaces, lines->width / 2);
    }
    fprintf(lines->out, "%*s", (int)lines->spaces, "");
    fwrite(lines->word, 1, lines->word_bytes, lines->out);
    lines->column += lines->spaces + lines->word_width;
    lines->spaces = lines->word_width = 0;
    lines->word_bytes = 0;
}

static void add_to_word(struct answer_lines *lines, const char *text, size_t bytes,
                        unsigned width) {
    unsigned margin = lines->prefix ? (unsigned)strlen(lines->prefix) : 0;
    if (lines->word_bytes + bytes > sizeof lines->word ||
        margin + lines->word_width + width > lines->width)
        answer_view_flush_lines(lines);
    memcpy(lines->word + lines->word_bytes, text, bytes);
    lines->word_bytes += bytes;
    lines->word_width += width;
}

static void add_visible(struct answer_lines *lines, const char *text, size_t bytes) {
    char character[UTF8_BYTES_MAX + 1] = {0}, shown[FORMAT_SAFE_BYTES(UTF8_BYTES_MAX)];
    if (bytes == 1 && *text == 0) {
        add_to_word(lines, "\\x00", 4, 4);
        return;
    }
    memcpy(character, text, bytes);
    size_t count = format_visible(shown, sizeof shown, character);
    if (count != bytes || memcmp(shown, text, bytes) != 0) {
        add_to_word(lines, shown, count, (unsigned)count);
        return;
    }
    unsigned read;
    int width = wcwidth((wchar_t)utf8_read(text, &read));
    if (width == 2) answer_view_flush_lines(lines);
    add_to_word(lines, text, bytes, width < 0 ? 1 : (unsigned)width);
    if (width == 2) answer_view_flush_lines(lines); /* a line may break around a wide character */
}

void answer_view_push_lines(struct answer_lines *lines, unsigned columns, struct bytes text) {
    if (lines->verbatim) {
        fwrite(text.data, 1, text.count, lines->out);
        if (text.count) lines->column = text.data[text.count - 1] != '\n';
        return;
    }
    lines->width = max_u32(columns, COLUMNS_MIN) - 1; /* the cursor stays on the line */
    while (text.count) {
        size_t bytes;
        enum utf8_kind kind = utf8_next(text, &bytes);
        char first = text.data[0];
        if (first == ' ' || first == '\t' || first == '\n' || first == '\r')
            answer_view_flush_lines(lines);
        if (first == '\n')
            break_line(lines, false);
        else if (first == '\t')
            lines->spaces += TAB_COLUMNS - (lines->column + lines->spaces) % TAB_COLUMNS;
        else if (first == ' ')
            lines->spaces++;
        else if (kind != UTF8_WHOLE)
            add_to_word(lines, UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES, 1);
        else if (first != '\r')
            add_visible(lines, text.data, bytes);
        text.data += bytes;
        text.count -= bytes;
    }
}

/* ---- the answer's parts ---- */

static unsigned columns_of(FILE *out) {
    struct winsize size;
    bool known = ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col;
    return known ? size.ws_col : COLUMNS_DEFAULT;
}

/* wcwidth and libedit take the width and the bytes of characters from this thread's locale. */
static void use_utf8(void) {
    static locale_t utf8;
    if (!utf8) utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL);
    if (utf8) uselocale(utf8);
}

void answer_view_open(struct answer_view *view) {
    use_utf8();
    bool terminal = isatty(STDOUT_FILENO);
    FILE *thoughts = terminal ? stdout : stderr;
    bool thoughts_seen = terminal || isatty(STDERR_FILENO);
    const char *no_colour = getenv("NO_COLOR"), *kind = getenv("TERM");
    bool dims = kind && strcmp(kind, "dumb") != 0 && !(no_colour && *no_colour);
    view->colour = thoughts_seen && dims;
    view->may_wait = isatty(STDERR_FILENO) && kind && strcmp(kind, "dumb") != 0;
    view->text = (struct answer_lines){.out = stdout, .verbatim = !terminal};
    view->thought = (struct answer_lines){.out = thoughts,
                                          .verbatim = !thoughts_seen,
                                          .prefix = thoughts_seen && !view->colour ? "| " : NULL};
    answer_view_begin(view);
}

static void answer_view_restart(struct answer_lines *lines) {
    lines->column = lines->spaces = lines->word_width = 0;
    lines->word_bytes = 0;
    lines->wrapped = false;
}

void answer_view_begin(struct answer_view *view) {
    view->part = ANSWER_NONE;
    answer_view_restart(&view->text);
    answer_view_restart(&view->thought);
}

/* Ends the current part, before another one or at the end. */
static void end_part(struct answer_view *view) {
    if (view->part == ANSWER_NONE) return;
    struct answer_lines *lines = view->part == ANSWER_TEXT ? &view->text : &view->thought;
    answer_view_flush_lines(lines);
    bool thought = view->part == ANSWER_THOUGHT;
    if (thought && view->colour) fputs("\033[0m", lines->out);
    if (thought && lines->out == stderr && lines->column) putc('\n', stderr);
    fflush(lines->out);
}

#define ERASE_LINE "\r\033[K"

static void answer_view_end_wait(struct answer_view *view) {
    if (!view->waits) return;
    fputs(ERASE_LINE, stderr);
    fflush(stderr);
    view->waits = false;
}

void answer_view_wait(struct answer_view *view, const char *text) {
    if (!view->may_wait || view->part != ANSWER_NONE) return;
    fprintf(stderr, ERASE_LINE "%s", text);
    fflush(stderr);
    view->waits = true;
}

void answer_view_push(struct answer_view *view, enum answer_part part, struct bytes text) {
    struct answer_lines *lines = part == ANSWER_TEXT ? &view->text : &view->thought;
    if (!text.count) return;
    answer_view_end_wait(view);
    if (part != view->part) {
        end_part(view);
        if (view->part != ANSWER_NONE && view->text.out == view->thought.out)
            fputs("\n\n", lines->out);
        if (part == ANSWER_THOUGHT && view->colour) fputs("\033[2m", lines->out);
        answer_view_restart(lines);
        view->part = part;
    }
    answer_view_push_lines(lines, lines->verbatim ? 0 : columns_of(lines->out), text);
    fflush(lines->out);
}

bool answer_view_finish(struct answer_view *view) {
    enum answer_part part = view->part;
    answer_view_end_wait(view);
    end_part(view);
    view->part = ANSWER_NONE;
    return part == ANSWER_TEXT || (part == ANSWER_THOUGHT && view->thought.out == stdout);
}
