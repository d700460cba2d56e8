/* SPDX-License-Identifier: Apache-2.0
 * Converts the tokens of an answer to the text for its client, incrementally: whole UTF-8
 * characters only, truncated at the first stop string, split into reasoning, content and tool
 * calls. Bytes pass through these stages. Each stage holds back as little as possible:
 *
 *   token bytes -> whole characters (an invalid part becomes U+FFFD) -> stop strings -> think tags
 *               -> tool calls (tool_parser.h; in the content alone)
 *
 * The concatenated output does not depend on the split of the input. Stop strings are searched in
 * the whole generated text, including reasoning, tags and marks. The constrained part of an answer
 * (token_stream_bind) is not searched, because a cut would make it invalid. A special token without
 * text stops the answer if a stop string equals that token's text.
 *
 * Tags are the tokens "<think>" and "</think>". The same characters of other tokens are text. If
 * the tokenizer has no such tokens, the characters are tags. "<think>" opens reasoning at the start
 * of an answer, also behind newlines, and anywhere in an answer that continues or follows a tool's
 * result. Elsewhere it is text, and so is the "</think>" after it. Any other "</think>" that closes
 * nothing is dropped. Text before such a tag has already been sent as content and stays content.
 * Tags in a call, and in the constrained part, are text. Other tags are not part of the output, and
 * neither are the newlines around the reasoning nor, if no content precedes it, those between
 * "</think>" and the content. Trailing newlines of the content stay. Kimi's token that begins calls
 * also ends reasoning that is open, because these models call without "</think>" at times.
 *
 * The state is small and of fixed size, and nothing is allocated. A stream is for one thread.
 */
#pragma once

#include "base/limits.h"
#include "base/utf8.h"
#include "serving/text/token_stream_part.h"
#include "serving/text/tokenizer.h"
#include "serving/text/tool_parser.h"

/* The stop strings of a request, prepared once and shared by its answers. Initialize with zeros. */
struct stop_strings {
    uint32_t count;
    struct stop_string {
        uint32_t bytes;
        char text[LIMIT_STOP_STRING_BYTES];
        /* [i]: length of the longest proper border of text[0..i] (KMP) */
        uint8_t border[LIMIT_STOP_STRING_BYTES];
    } strings[LIMIT_STOP_STRINGS];
};

/* Adds a stop string. Returns STATUS_INVALID for an empty text or invalid UTF-8, and
 * STATUS_TOO_LARGE if it is too long or there are too many. */
enum status token_stream_stop_strings_add(struct stop_strings *stops, struct bytes text,
                                          struct error *error) MUST_USE;

enum token_stream_mode {
    TOKEN_STREAM_PLAIN,      /* everything is content, verbatim */
    TOKEN_STREAM_IN_CONTENT, /* starts in content: the request disabled reasoning */
    TOKEN_STREAM_GOES_ON, /* continues content, or starts after a tool's result without reasoning */
    TOKEN_STREAM_MAY_THINK,    /* starts with reasoning, if the model chooses to */
    TOKEN_STREAM_BEHIND_TOOL,  /* like MAY_THINK, after a tool's result, in the middle of a turn */
    TOKEN_STREAM_IN_REASONING, /* the prompt has opened the reasoning */
    TOKEN_STREAM_MODE_COUNT
};

/* The tokens that determine where an answer's constraint begins
 * (serving/constraint/constraint.h). */
struct token_stream_bound {
    uint32_t opens, behind, at; /* TOKEN_STREAM_NO_TOKEN: absent */
};

#define TOKEN_STREAM_NO_TOKEN UINT32_MAX

/* newlines held back before a tag; further ones are output */
#define TOKEN_STREAM_NEWLINES_MAX 16

struct token_stream { /* fields that all tokens use are adjacent, to touch few cache lines */
    /* [i]: number of bytes of stop string i that the text ends with */
    uint16_t stop_progress[LIMIT_STOP_STRINGS];
    char held[LIMIT_STOP_STRING_BYTES + UTF8_BYTES_MAX]; /* text that may become a stop string */
    struct tool_parser calls;                            /* calls.set NULL: calls are not parsed */
    const struct tokenizer *tokenizer;
    const struct stop_strings *stops; /* NULL: none */
    enum token_stream_mode mode;
    bool stopped;        /* a stop string was found; further tokens are ignored */
    uint32_t stopped_by; /* if stopped: index of the stop string */
    uint8_t place;       /* enum stream_place, in token_stream.c */
    uint8_t bound_waits; /* enum bound_waits, in token_stream.c */
    char tag_mark;       /* first character of a tag */
    bool tag_closes;     /* the current tag is a closing one */
    bool has_content;    /* content has been output */
    bool opens_anywhere; /* "<think>" in the content opens reasoning */
    bool in_quote;       /* an opening tag was text, so the next "</think>" is text, too */
    struct token_stream_bound bound;
    uint32_t reasoning_tokens; /* tokens from the opening tag to the closing one */
    struct utf8_joiner joiner;
    uint32_t held_bytes;
    uint32_t opening, closing; /* ids of the tags, if the tokenizer has them */
    uint32_t calling;          /* token that ends reasoning, too; or TOKEN_STREAM_NO_TOKEN */
    uint32_t tag_progress;     /* bytes of a tag seen */
    uint32_t newline_count;    /* newlines that may turn out to be trailing */
};

/* Limits of the output. A run of pushes outputs at most TOKEN_STREAM_HELD_MAX bytes, plus
 * TOKEN_STREAM_GROWTH_MAX for each byte of the run's tokens. token_stream_finish outputs at most
 * TOKEN_STREAM_HELD_MAX. A byte grows to 3 if it is invalid UTF-8, and to 6 if it is a control
 * character in a string of a call's arguments. */
#define TOKEN_STREAM_GROWTH_MAX TOOL_GROWTH_MAX
#define TOKEN_STREAM_HELD_MAX                                                                      \
    (TOKEN_STREAM_GROWTH_MAX * (2 * UTF8_BYTES_MAX + LIMIT_STOP_STRING_BYTES + 8 +                 \
                                TOKEN_STREAM_NEWLINES_MAX + TOOL_HELD_MAX))

/* `tools` NULL: calls are not parsed. All arguments are borrowed for the life of the stream. */
void token_stream_open(struct token_stream *stream, const struct tokenizer *tokenizer,
                       const struct stop_strings *stops, enum token_stream_mode mode,
                       const struct tool_set *tools);

/* Disables stop strings in the constrained part of the answer. Call it before the first token. */
void token_stream_bind(struct token_stream *stream, const struct token_stream_bound *bound);

/* Pushes one token. Special tokens have no text, except those in the marks of the format of
 * `tools`. Returns true if a stop string ends the answer here. All output up to it has then been
 * sent. */
bool token_stream_push(struct token_stream *stream, uint32_t token, token_stream_sink *sink,
                       void *context);

/* Ends the answer and outputs the text that is held back. Does nothing after a stop. */
void token_stream_finish(struct token_stream *stream, token_stream_sink *sink, void *context);
