/* SPDX-License-Identifier: Apache-2.0
 * Finds tool calls in an answer's content as it is streamed. This is the last stage of
 * token_stream.h, after the think tags. The joined pieces of output do not depend on how the input
 * is split. tool_format.h shows the formats, and tool_head.h finds where a call begins.
 *
 * Each byte is content, a call's name, id or arguments, or a mark of an emitted call. A call is
 * emitted once its beginning is complete. Until then its text is held back, and text that turns out
 * not to be a call is content. If a byte breaks an emitted call, the text from that byte on is
 * content, and its arguments stay as they are. If an answer ends inside a call, the arguments
 * stay as they are, and an incomplete mark at the end is content.
 *
 * Arguments are emitted as the model wrote them, even if they are not a JSON object, or not JSON.
 * If a format has pairs instead of JSON (V3.2, GLM, Qwen3-Coder), JSON is generated from them. A
 * value is a string if its attribute (V3.2) or the tool's schema declares one, else JSON if it
 * parses, else a string. It counts as JSON if its first TOOL_VALUE_HELD_MAX bytes could be JSON. A
 * complete call without arguments gets "{}". Arguments that are not parsed as JSON (DeepSeek's,
 * Kimi's, values of pairs) end at their mark even inside a string, because a mark and its spelling
 * cannot be distinguished here.
 *
 * Newlines directly before a call, at most TOOL_NEWLINES_MAX, and all whitespace directly after one
 * belong to it. Other text around calls is content. A special token of the format's marks outside
 * of calls is content, too. Text with a name of more than TOOL_NAME_BYTES_MAX bytes, or with
 * whitespace or an escape in its name, is not a call. An id that is not a valid name, or follows
 * the name, is dropped, and so is a "type".
 */
#pragma once

#include "serving/text/token_stream_part.h"
#include "serving/text/tool_head.h"

#define TOOL_VALUE_HELD_MAX 256 /* bytes held back of a value that may be JSON or a string */
#define TOOL_HELD_MAX 1024      /* bytes held back; a call's beginning is no longer */
/* bytes of output per byte of input: a control character in a value becomes \u00XX */
#define TOOL_GROWTH_MAX 6

struct tool_parser {
    const struct tool *tool;   /* tool of the open call; NULL: not in the set */
    uint8_t state;             /* enum tool_state */
    struct tool_place place;   /* for TOOL_STATE_CONTENT */
    bool in_section;           /* for the open call: becomes place.in_section */
    bool argued;               /* the open call has arguments */
    bool drops_newline;        /* ignore a newline as the first byte of the value */
    struct call_object object; /* state of the JSON object that was output */
    uint32_t held_count;
    char held[TOOL_HELD_MAX];
    const struct tool_set *set;
};

void tool_parser_open(struct tool_parser *parser, const struct tool_set *set);

/* Pushes more content, which must be whole characters. */
void tool_parser_push(struct tool_parser *parser, struct bytes text, token_stream_sink *sink,
                      void *context);

/* True if a call was output and has not ended. */
bool tool_parser_in_call(const struct tool_parser *parser);

/* Ends the content and outputs the text that is held back. */
void tool_parser_finish(struct tool_parser *parser, token_stream_sink *sink, void *context);
