/* SPDX-License-Identifier: Apache-2.0
 * Parses the marks of tool calls in a text that may continue. A parser is a chain of steps, and
 * each step moves the cursor past its match. Once a step does not match, or the text ends too early
 * to decide, later steps do nothing. At the end of the chain, `found` has the result.
 */
#pragma once

#include "base/bytes.h"

#define TOOL_NAME_BYTES_MAX 256 /* limit of the name of a tool or parameter, or of an id */

enum tool_found {
    TOOL_FOUND_YES,
    TOOL_FOUND_NO,
    TOOL_FOUND_CUT, /* the text ends too early to decide */
    TOOL_FOUND_COUNT
};

struct tool_cursor {
    struct bytes text;
    size_t at;
    bool ends; /* the text is complete: nothing is CUT */
    enum tool_found found;
};

/* True for whitespace of JSON. */
bool tool_cursor_is_space(char byte);

/* True at the end of the text. Sets `found` to CUT if the text may continue. */
bool tool_cursor_at_end(struct tool_cursor *cursor);
/* Consumes the mark if it is next, and returns whether it was. */
bool tool_cursor_takes(struct tool_cursor *cursor, const char *mark);
/* True if the mark is next. The cursor does not move. */
bool tool_cursor_sees(struct tool_cursor *cursor, const char *mark);
/* Consumes the mark, or sets `found` to NO if it is not next. */
void tool_cursor_wants(struct tool_cursor *cursor, const char *mark);
/* Skips whitespace. */
void tool_cursor_space(struct tool_cursor *cursor);
/* Consumes a name: 1 to TOOL_NAME_BYTES_MAX bytes, up to a byte that names cannot contain:
 * whitespace, a control byte, or one of "<>[]{}\ */
struct bytes tool_cursor_name(struct tool_cursor *cursor);
/* Consumes the text before the mark, at most TOOL_NAME_BYTES_MAX bytes, and the mark. */
struct bytes tool_cursor_until(struct tool_cursor *cursor, const char *mark);

/* True if the text is a name as in tool_cursor_name. */
bool tool_cursor_is_name(struct bytes text);
