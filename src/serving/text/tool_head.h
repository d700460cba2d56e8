/* SPDX-License-Identifier: Apache-2.0
 * Parses the beginning of a tool call: from the first mark to the name, and on until it is certain
 * that it is a call. A beginning is short, so it is parsed again from its first byte each time more
 * text arrives. No state is kept in between, so the split of the text does not matter.
 *
 * Some marks are optional, because the call is unambiguous without them: those around a sequence of
 * calls, V3's ```json, and the <tool_call> before <function=.
 */
#pragma once

#include "serving/text/call_object.h"
#include "serving/text/tool_cursor.h"
#include "serving/text/tool_format.h"

#define TOOL_NEWLINES_MAX 16 /* newlines before a call that belong to it */

/* The state of a call after its beginning. */
enum tool_state {
    TOOL_STATE_CONTENT,   /* there is no call */
    TOOL_STATE_RAW,       /* arguments up to a mark */
    TOOL_STATE_OBJECT,    /* the rest of a JSON object */
    TOOL_STATE_PAIRS,     /* expects a parameter, or the end of the call */
    TOOL_STATE_UNDECIDED, /* a parameter's value that is valid JSON so far */
    TOOL_STATE_JSON,      /* the rest of a parameter's JSON value */
    TOOL_STATE_STRING,    /* the rest of a parameter's string value */
    TOOL_STATE_COUNT
};

struct tool_head {
    struct bytes id, name;  /* id: empty if absent */
    struct bytes arguments; /* arguments found before the name, or at the end of the beginning */
    size_t count;           /* bytes of the beginning */
    enum tool_state next;
    bool in_section;           /* a mark may follow at the end of a sequence of calls */
    struct call_object object; /* TOOL_STATE_OBJECT */
};

/* A position in content at which a call may begin. */
struct tool_place {
    bool starts;     /* only whitespace precedes it */
    bool after_call; /* only whitespace follows the last call */
    bool in_section; /* after_call, and that call was in a sequence with a mark at its end */
};

/* Parses a call at the start of `text`, which may continue unless it `ends`. Sets *out on YES. A
 * result other than CUT does not change with more text. */
enum tool_found tool_head_find(enum tool_format format, struct tool_place place, struct bytes text,
                               bool ends, struct tool_head *out);
