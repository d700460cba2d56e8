/* SPDX-License-Identifier: Apache-2.0
 * The text of an answer that is not streamed, as it grows: blocks in the request's arena, each a
 * quarter of everything before it, so that long answers take few. Reasoning and content stand in it
 * in the order in which they came, as runs.
 */
#ifndef SERVING_GATEWAY_API_ANSWER_TEXT_H
#define SERVING_GATEWAY_API_ANSWER_TEXT_H

#include "base/arena.h"
#include "base/json_writer.h"
#include "serving/text/token_stream_part.h"

struct answer_block;

struct answer_run { /* of one part, up to a byte of the text */
    struct answer_run *next;
    enum token_stream_part part; /* REASONING, CONTENT */
    size_t from, to;
    uint32_t token_at; /* tokens of the answer before the one that began it */
};

struct answer_text {
    struct answer_block *first, *last;
    size_t count;         /* bytes in all */
    size_t escaped_count; /* bytes in all, once written as JSON */
    struct answer_run *first_run, *last_run;
    uint32_t run_count;
    bool run_ended; /* what comes next begins a run */
};

/* False when the arena is out of memory; what fitted is kept. */
bool answer_text_add(struct answer_text *text, struct arena *arena, struct bytes piece);

/* As a part of the answer. */
bool answer_text_add_part(struct answer_text *text, struct arena *arena,
                          enum token_stream_part part, uint32_t token_at, struct bytes piece);

/* Bytes of all runs of a part. */
size_t answer_text_part_count(const struct answer_text *text, enum token_stream_part part);

/* Adds all of another text, which may end inside a character only where its parts did. */
bool answer_text_copy(struct answer_text *text, struct arena *arena,
                      const struct answer_text *source);

/* Calls `visit` with one piece of the text after the other; false as soon as that returns false. */
bool answer_text_walk(const struct answer_text *text,
                      bool (*visit)(void *context, struct bytes piece), void *context);

/* Writes bytes [from, to) into the inside of a JSON string (escaped), or as they are. */
void answer_text_write(const struct answer_text *text, size_t from, size_t to, bool escaped,
                       struct json_writer *writer);

/* Writes all runs of a part into the inside of a JSON string. */
void answer_text_write_part(const struct answer_text *text, enum token_stream_part part,
                            struct json_writer *writer);

#endif
