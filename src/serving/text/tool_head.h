/* SPDX-License-Identifier: Apache-2.0
 * Where a tool call begins: from the first mark to the name, and to whatever else tells that it is
 * a call and no text. A beginning is short, so it is read anew from its first byte each time that
 * more of the text has come; nothing is kept in between, and how the text came in pieces cannot
 * matter.
 */
#ifndef SERVING_TEXT_TOOL_HEAD_H
#define SERVING_TEXT_TOOL_HEAD_H

#include "serving/text/json_scanner.h"
#include "serving/text/tool_format.h"

#define TOOL_NAME_BYTES_MAX 256 /* of a tool's name, an id, or a parameter's name */

/* What a mark, or a beginning, is at the start of a text. */
enum tool_found {
    TOOL_FOUND_NO,
    TOOL_FOUND_CUT, /* the text ends before this can be told */
    TOOL_FOUND_YES,
    TOOL_FOUND_COUNT
};

/* A reader of a text that may go on. */
struct tool_cursor {
    struct bytes text;
    size_t at;
    bool ends; /* the text does not go on: nothing is CUT */
};

/* Each goes on behind what it found, and stays where it is otherwise. */
enum tool_found tool_cursor_mark(struct tool_cursor *cursor, const char *mark);
/* Bytes up to one that no name has: whitespace, a control byte, or one of "<>[]{}\ */
enum tool_found tool_cursor_name(struct tool_cursor *cursor, struct bytes *name_out);
void tool_cursor_space(struct tool_cursor *cursor);

bool tool_is_space(char byte);

/* How a call goes on behind its beginning. */
enum tool_state {
    TOOL_STATE_CONTENT,   /* there is no call */
    TOOL_STATE_RAW,       /* arguments up to a mark */
    TOOL_STATE_OBJECT,    /* the rest of a JSON object */
    TOOL_STATE_PAIRS,     /* a parameter, or the end of the call */
    TOOL_STATE_UNDECIDED, /* a parameter's value: JSON as far as it has come */
    TOOL_STATE_JSON,
    TOOL_STATE_STRING,
    TOOL_STATE_COUNT
};

/* A call that is a JSON object, or whose arguments are one, as far as it was read. */
enum call_member {
    CALL_MEMBER_NONE, /* between the values of members */
    CALL_MEMBER_NAME,
    CALL_MEMBER_ID,
    CALL_MEMBER_ARGUMENTS,
    CALL_MEMBER_OTHER,
    CALL_MEMBER_COUNT
};

#define CALL_KEY_BYTES_MAX 12

struct call_object {
    struct json_scanner scanner;
    bool is_arguments; /* all of it is the arguments */
    uint8_t member;    /* enum call_member: whose value is being read */
    uint8_t seen;      /* members that have come, a bit each */
    uint8_t key_count; /* more than CALL_KEY_BYTES_MAX: none that we know */
    char key[CALL_KEY_BYTES_MAX];
};

/* Takes one more byte, which belongs to *member_out. False: it breaks the object. */
bool call_object_next(struct call_object *object, char byte, enum call_member *member_out);

struct tool_head {
    struct bytes id, name;  /* id: empty if there is none */
    struct bytes arguments; /* those that came before the name */
    size_t count;           /* bytes of the beginning */
    enum tool_state next;
    bool opens_section;
    struct call_object object; /* TOOL_STATE_OBJECT */
};

/* Where a call may begin, in content. */
struct tool_place {
    bool starts;     /* nothing but whitespace came before */
    bool after_call; /* nothing but whitespace came since a call */
    bool in_section; /* in a run of calls that has a mark at its end */
};

/* A call at the start of the cursor's text; *out is set on YES. */
enum tool_found tool_head_find(enum tool_format format, struct tool_place place,
                               struct tool_cursor cursor, struct tool_head *out);

#endif
