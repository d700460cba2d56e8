/* SPDX-License-Identifier: Apache-2.0
 * Reads questions from a terminal with libedit: editing, history and search. It also has the
 * process's signals: Ctrl-C sets a flag and ends a wait for a line, but not the process. A signal
 * that ends the process while a line is edited ends it once the terminal is as it was.
 *
 * Pasted lines are one question. A terminal that marks what is pasted (bracketed paste) is asked to
 * do so. Without marks, a line end that is followed by more bytes within 30 ms belongs to the text.
 * libedit gets its characters from here, so the terminal stays in its raw mode for the whole
 * question, and lines may have any length. The thread's locale must be UTF-8, as answer_view_open
 * sets it.
 */
#pragma once

#include <stdbool.h>

#include "base/bytes.h"
#include "base/status.h"

struct line_editor;

enum line_kind { LINE_READ, LINE_INTERRUPTED, LINE_END };

/* `history_path`: the file that keeps the questions, readable by its owner alone; NULL: none. */
enum status line_editor_open(const char *prompt, const char *history_path,
                             struct line_editor **editor_out, struct error *error) MUST_USE;
void line_editor_close(struct line_editor *editor);

/* Reads a question, which may have several lines. It is valid UTF-8 and lives until the next
 * call. */
enum line_kind line_editor_read(struct line_editor *editor, struct bytes *line_out);

/* True after Ctrl-C, until the next line_editor_read. */
bool line_editor_interrupted(void);
