/* SPDX-License-Identifier: Apache-2.0
 * The growing text of an answer that is not streamed. It is stored in blocks in the request's
 * arena, each a quarter of everything before it, so that long answers need few. Reasoning and
 * content are stored in order, as runs.
 */
#pragma once

#include "base/arena.h"
#include "base/json_writer.h"
#include "serving/text/token_stream_part.h"

struct answer_block;

struct answer_run { /* bytes [from, to) of the text, which belong to one part */
    struct answer_run *next;
    enum token_stream_part part; /* REASONING, CONTENT */
    size_t from, to;
    uint32_t token_at; /* index in the answer of the token that began it */
};

struct answer_text {
    struct answer_block *first, *last;
    size_t count;         /* total bytes */
    size_t escaped_count; /* total bytes, escaped for a JSON string */
    struct answer_run *first_run, *last_run;
    uint32_t run_count;
    bool run_ended; /* the next text begins a new run */
};

/* False when the arena is out of memory; the part that fitted is kept. */
bool answer_text_add(struct answer_text *text, struct arena *arena, struct bytes piece);

/* Appends text of a part of the answer. Returns as answer_text_add. */
bool answer_text_add_part(struct answer_text *text, struct arena *arena,
                          enum token_stream_part part, uint32_t token_at, struct bytes piece);

/* Bytes of all runs of a part. */
size_t answer_text_part_count(const struct answer_text *text, enum token_stream_part part);

/* Appends another text, which may end inside a character only at the end of a part. */
bool answer_text_copy(struct answer_text *text, struct arena *arena,
                      const struct answer_text *source);

/* Calls `visit` with each piece of the text in order. Stops and returns false if `visit` returns
 * false. */
bool answer_text_walk(const struct answer_text *text,
                      bool (*visit)(void *context, struct bytes piece), void *context);

/* Writes bytes [from, to), either escaped for a JSON string or unchanged. */
void answer_text_write(const struct answer_text *text, size_t from, size_t to, bool escaped,
                       struct json_writer *writer);

/* Writes all runs of a part, escaped for a JSON string. */
void answer_text_write_part(const struct answer_text *text, enum token_stream_part part,
                            struct json_writer *writer);
