/* SPDX-License-Identifier: Apache-2.0
 * Where a tool call begins: from the first mark to the name, and to whatever else tells that it is
 * a call and no text. A beginning is short, so it is read anew from its first byte each time that
 * more of the text has come; nothing is kept in between, and how the text came in pieces cannot
 * matter.
 *
 * Marks that a model leaves out are not insisted on where a call is plain without them: those
 * around a run of calls, V3's ```json, and the <tool_call> in front of <function=.
 */
#ifndef SERVING_TEXT_TOOL_HEAD_H
#define SERVING_TEXT_TOOL_HEAD_H

#include "serving/text/call_object.h"
#include "serving/text/tool_cursor.h"
#include "serving/text/tool_format.h"

#define TOOL_NEWLINES_MAX 16 /* in front of a call, that belong to it */

/* How a call goes on behind its beginning. */
enum tool_state {
    TOOL_STATE_CONTENT,   /* there is no call */
    TOOL_STATE_RAW,       /* arguments up to a mark */
    TOOL_STATE_OBJECT,    /* the rest of a JSON object */
    TOOL_STATE_PAIRS,     /* a parameter, or the end of the call */
    TOOL_STATE_UNDECIDED, /* a parameter's value: JSON as far as it has come */
    TOOL_STATE_JSON,      /* the rest of a parameter's value that is JSON */
    TOOL_STATE_STRING,    /* the rest of one that is a string */
    TOOL_STATE_COUNT
};

struct tool_head {
    struct bytes id, name;  /* id: empty if there is none */
    struct bytes arguments; /* those that came before the name, or at the beginning's end */
    size_t count;           /* bytes of the beginning */
    enum tool_state next;
    bool in_section;           /* a mark at the end of a run of calls may come */
    struct call_object object; /* TOOL_STATE_OBJECT */
};

/* Where a call may begin, in content. */
struct tool_place {
    bool starts;     /* nothing but whitespace came before */
    bool after_call; /* nothing but whitespace came since a call */
    bool in_section; /* so it is, and that call was in a run that has a mark at its end */
};

/* A call at the start of `text`, which may go on unless it `ends`; *out is set on YES. Once a text
 * is not CUT, it is the same with more text behind it. */
enum tool_found tool_head_find(enum tool_format format, struct tool_place place, struct bytes text,
                               bool ends, struct tool_head *out);

#endif
