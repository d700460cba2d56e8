/* SPDX-License-Identifier: Apache-2.0
 * Finds tool calls in an answer's content, as it comes: the stage of token_stream.h behind the
 * think tags. Whatever the pushes, the pieces joined are the same. (tool_format.h shows the
 * formats; tool_head.h finds where a call begins.)
 *
 * Nothing is lost: each byte is content, a call's name, id or arguments, or a mark of a call that
 * was put out. A call is put out once its beginning is whole; until then its text is held back, and
 * what turns out to be no call is content. What breaks a call that was put out is content, from the
 * byte that breaks it; its arguments stay as they are. An answer that ends in mid-call leaves the
 * arguments so far, and marks that it ends in are content.
 *
 * Arguments are put out as the model wrote them, even if they are no JSON object, and no JSON. Only
 * where a format has no JSON (V3.2, GLM, Qwen3-Coder) they are made: a value is a string if its
 * attribute (V3.2) or the tool's schema says so, else JSON if it parses, else a string. A value
 * whose first TOOL_VALUE_HELD_MAX bytes could be JSON is taken for JSON. A call that is whole and
 * has no arguments gets "{}". Arguments that are not followed as JSON (DeepSeek's, Kimi's, values)
 * end with their mark even if it stands in a string: a mark and its spelling look the same here.
 *
 * Newlines right before a call, at most TOOL_NEWLINES_MAX, and all whitespace right behind one
 * belong to it; other text around calls is content. A special token that is part of the format's
 * marks and of no call is content, too. What is named by more than TOOL_NAME_BYTES_MAX bytes, or
 * has whitespace or an escape in its name, is no call. An id that is no such name, or comes behind
 * the name, is dropped, and so is a "type".
 */
#ifndef SERVING_TEXT_TOOL_PARSER_H
#define SERVING_TEXT_TOOL_PARSER_H

#include "serving/text/token_stream_part.h"
#include "serving/text/tool_head.h"

#define TOOL_VALUE_HELD_MAX 256 /* of a value that may be JSON or a string */
#define TOOL_HELD_MAX 1024      /* bytes held back; a call's beginning is no longer */
#define TOOL_GROWTH_MAX 6       /* bytes put out for one taken: a value's control byte as \u00XX */

struct tool_parser {
    const struct tool *tool;   /* of the open call; NULL: it is none of the set's */
    uint8_t state;             /* enum tool_state */
    struct tool_place place;   /* CONTENT */
    bool in_section;           /* of the open call: becomes place.in_section */
    bool argued;               /* the open call has got arguments */
    bool drops_newline;        /* the value's first byte does not count if it is a newline */
    struct call_object object; /* OBJECT, as far as it was put out */
    uint32_t held_count;
    char held[TOOL_HELD_MAX];
    const struct tool_set *set;
};

void tool_parser_open(struct tool_parser *parser, const struct tool_set *set);

/* Takes more content: whole characters. */
void tool_parser_push(struct tool_parser *parser, struct bytes text, token_stream_sink *sink,
                      void *context);

/* A call was put out, and has not ended. */
bool tool_parser_in_call(const struct tool_parser *parser);

/* The content ends: puts out what is held back. */
void tool_parser_finish(struct tool_parser *parser, token_stream_sink *sink, void *context);

#endif
