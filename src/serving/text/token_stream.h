/* SPDX-License-Identifier: Apache-2.0
 * From one answer's tokens to what its reader sees, as it comes: whole UTF-8 characters only, cut
 * at the first stop string, split into reasoning, content and tool calls. Bytes pass five stages,
 * each of which holds back no more than it must:
 *
 *   token bytes -> whole characters (an invalid part becomes U+FFFD) -> stop strings -> think tags
 *               -> tool calls (tool_parser.h; in the content alone)
 *
 * Whatever the pushes, the concatenated output is the same. Stop strings are looked for in the
 * whole generated text, reasoning, tags and marks included, but not where the answer is bound to a
 * form (token_stream_bind), which a cut would break. A special token that makes no text stops the
 * answer where a stop string is that token's text.
 *
 * Tags are the tokens "<think>" and "</think>"; the same characters of other tokens are text. Where
 * the tokenizer has no such tokens the characters are tags. "<think>" opens reasoning at the start
 * of an answer, and at any place of one that goes on or comes behind a tool's result. Elsewhere it is
 * text, and so is the "</think>" behind it; any other that closes nothing is dropped. What came
 * before such a tag has gone out as content, and stays content. Tags in a call, and in what is
 * bound, are text. Tags that are no text are not put out, nor the newlines around the reasoning and,
 * where no content stands before it, those between "</think>" and the content; trailing newlines of
 * the content stay.
 *
 * No allocation: the state is small and of fixed size.
 */
#ifndef SERVING_TEXT_TOKEN_STREAM_H
#define SERVING_TEXT_TOKEN_STREAM_H

#include "base/limits.h"
#include "serving/text/token_stream_part.h"
#include "serving/text/tokenizer.h"
#include "serving/text/tool_parser.h"
#include "base/utf8.h"

/* Stop strings of a request, prepared once, shared by its answers. Zero it first. */
struct stop_strings {
    uint32_t count;
    struct stop_string {
        uint32_t bytes;
        char text[LIMIT_STOP_STRING_BYTES];
        uint8_t
            border[LIMIT_STOP_STRING_BYTES]; /* [i]: longest proper border of text[0..i] (KMP) */
    } strings[LIMIT_STOP_STRINGS];
};

/* STATUS_INVALID: empty or not UTF-8. STATUS_TOO_LARGE: too long, or too many. */
enum status token_stream_stop_strings_add(struct stop_strings *stops, struct bytes text,
                                          struct error *error) MUST_USE;

enum token_stream_mode {
    TOKEN_STREAM_PLAIN,        /* everything is content, verbatim */
    TOKEN_STREAM_IN_CONTENT,   /* content begins: a model that thinks was asked not to */
    TOKEN_STREAM_GOES_ON,      /* content goes on, or begins behind a tool's result as above */
    TOKEN_STREAM_MAY_THINK,    /* the model thinks first, if it likes */
    TOKEN_STREAM_BEHIND_TOOL,  /* the same, behind a tool's result: in the middle of a turn */
    TOKEN_STREAM_IN_REASONING, /* the prompt has already opened the reasoning */
    TOKEN_STREAM_MODE_COUNT
};

/* From which token on an answer is bound: as of a constraint (serving/constraint/constraint.h). */
struct token_stream_bound {
    uint32_t opens, behind, at; /* TOKEN_STREAM_NO_TOKEN: it has no such one */
};

#define TOKEN_STREAM_NO_TOKEN UINT32_MAX

#define TOKEN_STREAM_NEWLINES_MAX                                                                  \
    16 /* held back before "</think>"; more than these are put out                                 \
        */

struct token_stream { /* first what few tokens look at, then what all do: few cache lines */
    uint16_t
        stop_progress[LIMIT_STOP_STRINGS]; /* bytes of each stop string that the text ends with */
    char held[LIMIT_STOP_STRING_BYTES + UTF8_BYTES_MAX]; /* what may become a stop string */
    struct tool_parser calls; /* calls.set NULL: calls are not looked for */
    const struct tokenizer *tokenizer;
    const struct stop_strings *stops; /* NULL: none */
    enum token_stream_mode mode;
    bool stopped;        /* a stop string was found; further tokens are ignored */
    uint32_t stopped_by; /* if stopped: its place among the stop strings */
    uint8_t place;       /* enum place, in token_stream.c */
    uint8_t bound_waits; /* enum bound_waits, in token_stream.c */
    char tag_mark;       /* at which a tag begins */
    bool tag_closes;     /* the tag that has begun */
    bool has_content;    /* some was put out */
    bool opens_anywhere; /* "<think>" in the content opens reasoning */
    bool in_quote;       /* one was text, and the "</think>" behind it is, too */
    struct token_stream_bound bound;
    uint32_t reasoning_tokens; /* from the opening tag to the closing one */
    struct utf8_joiner joiner;
    uint32_t held_bytes;
    uint32_t opening, closing; /* the tags' tokens, if the tokenizer has them */
    uint32_t tag_progress;     /* bytes of a tag seen */
    uint32_t newline_count;    /* newlines that may turn out to be the last ones */
};

/* A run of pushes puts out at most TOKEN_STREAM_HELD_MAX bytes, and TOKEN_STREAM_GROWTH_MAX more for
 * each byte of the run's tokens; token_stream_finish at most TOKEN_STREAM_HELD_MAX. The growth is a
 * byte that is no UTF-8 (3), or a control byte in a string of a call's arguments (6). */
#define TOKEN_STREAM_GROWTH_MAX TOOL_GROWTH_MAX
#define TOKEN_STREAM_HELD_MAX                                                                      \
    (TOKEN_STREAM_GROWTH_MAX * (2 * UTF8_BYTES_MAX + LIMIT_STOP_STRING_BYTES + 8 +                 \
                                TOKEN_STREAM_NEWLINES_MAX + TOOL_HELD_MAX))

/* `tools` NULL: calls are not looked for. It is kept, as are the others. */
void token_stream_open(struct token_stream *stream, const struct tokenizer *tokenizer,
                       const struct stop_strings *stops, enum token_stream_mode mode,
                       const struct tool_set *tools);

/* From `bound` on stop strings are not looked for. Between the opening and the first token. */
void token_stream_bind(struct token_stream *stream, const struct token_stream_bound *bound);

/* Pushes one token. Special ones make no text, but for those that the format of `tools` has in its
 * marks. Returns true when a stop string ends the answer here; all output up to it has then been
 * put out. */
bool token_stream_push(struct token_stream *stream, uint32_t token, token_stream_sink *sink,
                       void *context);

/* The answer ends: puts out what is still held back. Nothing happens after a stop. */
void token_stream_finish(struct token_stream *stream, token_stream_sink *sink, void *context);

#endif
