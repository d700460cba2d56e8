/* SPDX-License-Identifier: Apache-2.0
 * Parses the marks of tool calls in a text that may continue: a chain of steps, each of which moves
 * past its match. Once a step does not match, or the text ends before that is certain, later steps
 * do nothing, and `found` has the result at the chain's end.
 */
#ifndef SERVING_TEXT_TOOL_CURSOR_H
#define SERVING_TEXT_TOOL_CURSOR_H

#include "base/bytes.h"

#define TOOL_NAME_BYTES_MAX 256 /* of a tool's name, an id, or a parameter's name */

enum tool_found {
    TOOL_FOUND_YES,
    TOOL_FOUND_NO,
    TOOL_FOUND_CUT, /* the text ends before it is certain */
    TOOL_FOUND_COUNT
};

struct tool_cursor {
    struct bytes text;
    size_t at;
    bool ends; /* the text does not go on: nothing is CUT */
    enum tool_found found;
};

/* Whitespace of JSON. */
bool tool_cursor_is_space(char byte);

/* Nothing is left of the text; CUT if it may go on. */
bool tool_cursor_at_end(struct tool_cursor *cursor);
/* The mark stands here: true, and the cursor moves behind it. */
bool tool_cursor_takes(struct tool_cursor *cursor, const char *mark);
/* The mark stands here; the cursor stays. */
bool tool_cursor_sees(struct tool_cursor *cursor, const char *mark);
/* Like takes; if it does not match, found is NO. */
void tool_cursor_wants(struct tool_cursor *cursor, const char *mark);
/* Any whitespace, none included. */
void tool_cursor_space(struct tool_cursor *cursor);
/* A name: 1 to TOOL_NAME_BYTES_MAX bytes, up to a byte that no name has. Those are whitespace,
 * control bytes, and each of "<>[]{}\ */
struct bytes tool_cursor_name(struct tool_cursor *cursor);
/* The text before the mark, at most TOOL_NAME_BYTES_MAX bytes; the cursor moves after it. */
struct bytes tool_cursor_until(struct tool_cursor *cursor, const char *mark);

/* The text is a name as tool_cursor_name takes it. */
bool tool_cursor_is_name(struct bytes text);

#endif
