/* SPDX-License-Identifier: Apache-2.0
 * Parses the marks of tool calls in a text that may continue: a chain of steps, each of which moves
 * past its match. Once a step does not match, or the text ends before that is certain, later steps
 * do nothing, and `found` has the result at the chain's end.
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

/* True at the end of the text; CUT if the text may continue. */
bool tool_cursor_at_end(struct tool_cursor *cursor);
/* Consumes the mark if it is next, and returns whether it was. */
bool tool_cursor_takes(struct tool_cursor *cursor, const char *mark);
/* True if the mark is next; the cursor does not move. */
bool tool_cursor_sees(struct tool_cursor *cursor, const char *mark);
/* tool_cursor_takes that sets `found` to NO if the mark is not next. */
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
