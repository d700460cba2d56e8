/* SPDX-License-Identifier: Apache-2.0
 * What the tests of tool calls share: a sink that checks the order of pieces and writes down what a
 * client sees, and the law that nothing of a model's output is lost.
 *
 * What is seen is written as content with calls in it: «name(arguments)», «id#name(arguments)».
 */
#pragma once

#include "base/check.h"
#include "base/json_writer.h"
#include "base/utf8.h"
#include "serving/text/tool_parser.h"

#define SEEN_BYTES_MAX 16384

struct tool_seen {
    char text[SEEN_BYTES_MAX];
    size_t count;
    char pieces[SEEN_BYTES_MAX];   /* all pieces as they came */
    uint8_t parts[SEEN_BYTES_MAX]; /* enum token_stream_part of each byte of pieces */
    size_t piece_bytes, calls;
    enum token_stream_part last; /* CONTENT at the start */
    bool in_call;
};

static inline void seen_add(struct tool_seen *seen, struct bytes text) {
    check(seen->count + text.count < SEEN_BYTES_MAX);
    memcpy(seen->text + seen->count, text.data, text.count);
    seen->count += text.count;
    seen->text[seen->count] = '\0';
}

static inline void seen_end_call(struct tool_seen *seen) {
    if (seen->in_call) seen_add(seen, BYTES_LITERAL(")»"));
    seen->in_call = false;
}

/* A token_stream_sink. */
static inline void seen_take(void *context, enum token_stream_part part, struct bytes text) {
    struct tool_seen *seen = context;
    check(text.count > 0 && utf8_valid_prefix(text) == text.count);
    check(seen->last != TOKEN_STREAM_CALL_ID || part == TOKEN_STREAM_CALL);
    check(seen->in_call || part != TOKEN_STREAM_ARGUMENTS);
    check(part == TOKEN_STREAM_CONTENT || part == TOKEN_STREAM_ARGUMENTS ||
          text.count <= TOOL_NAME_BYTES_MAX);
    if (part != TOKEN_STREAM_ARGUMENTS) seen_end_call(seen);
    bool begins = part == TOKEN_STREAM_CALL_ID || part == TOKEN_STREAM_CALL;
    if (begins && seen->last != TOKEN_STREAM_CALL_ID) seen_add(seen, BYTES_LITERAL("«"));
    seen_add(seen, text);
    if (part == TOKEN_STREAM_CALL_ID) seen_add(seen, BYTES_LITERAL("#"));
    if (part == TOKEN_STREAM_CALL) seen_add(seen, BYTES_LITERAL("("));
    seen->in_call |= part == TOKEN_STREAM_CALL;
    seen->calls += part == TOKEN_STREAM_CALL;
    seen->last = part;
    check(seen->piece_bytes + text.count <= SEEN_BYTES_MAX);
    memcpy(seen->pieces + seen->piece_bytes, text.data, text.count);
    memset(seen->parts + seen->piece_bytes, (int)part, text.count);
    seen->piece_bytes += text.count;
}

static inline void seen_open(struct tool_seen *seen) {
    seen->count = seen->piece_bytes = seen->calls = 0;
    seen->text[0] = '\0';
    seen->last = TOKEN_STREAM_CONTENT;
    seen->in_call = false;
}

/* ---- the law ---- */

#define TOOL_SYNTAX_MAX 20

/* What a format's calls consist of besides names, ids and arguments. */
static const char *const tool_syntax[TOOL_FORMAT_COUNT][TOOL_SYNTAX_MAX] = {
    [TOOL_FORMAT_DEEPSEEK_V3] = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>",
                                 "function<｜tool▁sep｜>", "```json", "```", "<｜tool▁call▁end｜>",
                                 "<｜tool▁calls▁end｜>"},
    [TOOL_FORMAT_DEEPSEEK_V31] = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>",
                                  "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"},
    [TOOL_FORMAT_DEEPSEEK_V32] = {"<｜DSML｜function_calls>", "</｜DSML｜function_calls>",
                                  "<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>",
                                  "<｜DSML｜invoke name=\"", "\">", "</｜DSML｜invoke>",
                                  "<｜DSML｜parameter name=\"", "\" string=\"true\">",
                                  "\" string=\"false\">", "</｜DSML｜parameter>"},
    [TOOL_FORMAT_HERMES] = {"<tool_call>", "</tool_call>", "{", "}", "\"name\"", "\"id\"",
                            "\"arguments\"", "\"parameters\"", "\"", ",", ":",
                            "<function=", "<parameter=", "</parameter>", "</function>", ">"},
    [TOOL_FORMAT_KIMI] = {"<|tool_calls_section_begin|>", "<|tool_call_section_begin|>",
                          "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
                          "<|tool_call_end|>", "<|tool_calls_section_end|>",
                          "<|tool_call_section_end|>"},
    [TOOL_FORMAT_GLM] = {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>",
                         "</arg_value>"},
    [TOOL_FORMAT_LLAMA] = {"<|python_tag|>", "{", "}", "\"name\"", "\"id\"", "\"arguments\"",
                           "\"parameters\"", "\"", ",", ":", ";"},
    [TOOL_FORMAT_MISTRAL] = {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]", "[", "]", "{", "}", "\"name\"",
                             "\"arguments\"", "\"parameters\"", "\"", ",", ":"},
};

/* What may be dropped: a member "id" or "type" with its string, even if the text ends in it; and
 * [CALL_ID] with the id. Returns its length. */
static inline size_t tool_dropped(struct bytes text) {
    size_t at = bytes_start_with(text, BYTES_LITERAL("\"id\""))      ? 4
                : bytes_start_with(text, BYTES_LITERAL("\"type\""))  ? 6
                : bytes_start_with(text, BYTES_LITERAL("[CALL_ID]")) ? 9
                                                                     : 0;
    if (at == 0) return 0;
    if (at == 9) {
        while (at < text.count && tool_cursor_is_name((struct bytes){text.data + at, 1}))
            at++;
        return at;
    }
    while (at < text.count && (tool_cursor_is_space(text.data[at]) || text.data[at] == ':'))
        at++;
    if (at == text.count || text.data[at] != '"') return 0;
    const char *end = memchr(text.data + at + 1, '"', text.count - at - 1);
    return end ? (size_t)(end + 1 - text.data) : text.count;
}

#define LAW_BYTES_MAX 2048

/* A way to walk through what went in and what came out side by side. */
struct tool_walk {
    enum tool_format format;
    struct bytes in;
    const struct tool_seen *seen;
    uint8_t tried[LAW_BYTES_MAX][LAW_BYTES_MAX / 8];
};

static inline bool tool_walk_on(struct tool_walk *walk, size_t in, size_t out);

/* Bytes of arguments that nobody wrote: punctuation of values that are made JSON, and "{}". */
static inline bool tool_walk_made(struct tool_walk *walk, size_t in, size_t out) {
    const struct tool_seen *seen = walk->seen;
    size_t left = seen->piece_bytes - out;
    const char *piece = seen->pieces + out;
    bool makes = walk->format == TOOL_FORMAT_DEEPSEEK_V32 || walk->format == TOOL_FORMAT_HERMES ||
                 walk->format == TOOL_FORMAT_GLM;
    if (seen->parts[out] != TOKEN_STREAM_ARGUMENTS) return false;
    if (left >= 2 && !memcmp(piece, "{}", 2) && tool_walk_on(walk, in, out + 2)) return true;
    if (!makes) return false;
    if (strchr("{}:,\"", *piece) && tool_walk_on(walk, in, out + 1)) return true;
    if (*piece != '\\' || in == walk->in.count) return false;
    char escaped[6];
    struct json_writer writer = {.out = escaped, .room = sizeof escaped};
    json_writer_escaped(&writer, (struct bytes){walk->in.data + in, 1});
    return writer.count > 1 && writer.count <= left && !memcmp(escaped, piece, writer.count) &&
           tool_walk_on(walk, in + 1, out + writer.count);
}

static inline bool tool_walk_on(struct tool_walk *walk, size_t in, size_t out) {
    const struct tool_seen *seen = walk->seen;
    /* Kimi's names stand in its ids; Mistral's ids may stand behind the names */
    enum token_stream_part moved = walk->format == TOOL_FORMAT_KIMI      ? TOKEN_STREAM_CALL
                                   : walk->format == TOOL_FORMAT_MISTRAL ? TOKEN_STREAM_CALL_ID
                                                                         : TOKEN_STREAM_PART_COUNT;
    while (out < seen->piece_bytes && seen->parts[out] == moved)
        out++;
    if (in == walk->in.count && out == seen->piece_bytes) return true;
    uint8_t bit = (uint8_t)(1u << out % 8), *tried = &walk->tried[in][out / 8];
    if (*tried & bit) return false;
    *tried |= bit;
    struct bytes rest = {walk->in.data + in, walk->in.count - in};
    if (rest.count > 0 && out < seen->piece_bytes && rest.data[0] == seen->pieces[out] &&
        tool_walk_on(walk, in + 1, out + 1))
        return true;
    for (size_t i = 0; i < TOOL_SYNTAX_MAX && tool_syntax[walk->format][i]; i++) {
        struct bytes mark = bytes_of(tool_syntax[walk->format][i]);
        if (bytes_start_with(rest, mark) && tool_walk_on(walk, in + mark.count, out)) return true;
    }
    size_t dropped = tool_dropped(rest);
    if (dropped > 0 && tool_walk_on(walk, in + dropped, out)) return true;
    if (rest.count > 0 && tool_cursor_is_space(rest.data[0]) && tool_walk_on(walk, in + 1, out))
        return true;
    return out < seen->piece_bytes && tool_walk_made(walk, in, out);
}

/* What went in comes out again, in order, but for the syntax of calls; all of it if there is no
 * call. (Not to be asked where a call's arguments came before its name.) */
static inline bool tool_nothing_lost(enum tool_format format, struct bytes in,
                                     const struct tool_seen *seen) {
    static struct tool_walk walk;
    if (seen->calls == 0) return bytes_equal(in, (struct bytes){seen->pieces, seen->piece_bytes});
    check(in.count < LAW_BYTES_MAX && seen->piece_bytes < LAW_BYTES_MAX);
    walk.format = format;
    walk.in = in;
    walk.seen = seen;
    memset(walk.tried, 0, (in.count + 1) * sizeof walk.tried[0]);
    return tool_walk_on(&walk, 0, 0);
}
