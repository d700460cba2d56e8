/* SPDX-License-Identifier: Apache-2.0
 * The text of an answer that is not streamed, as it grows: blocks in the request's arena, each a
 * quarter of everything before it, so that long answers take few. Reasoning first, content behind it.
 */
#ifndef SERVING_GATEWAY_API_ANSWER_TEXT_H
#define SERVING_GATEWAY_API_ANSWER_TEXT_H

#include "base/arena.h"
#include "base/json_writer.h"

struct answer_block;

struct answer_text {
    struct answer_block *first, *last;
    size_t count;           /* bytes in all */
    size_t reasoning_count; /* of them, at the start */
    size_t escaped_count;   /* bytes in all, once written as JSON */
};

/* False when the arena is out of memory; what fitted is kept. */
bool answer_text_add(struct answer_text *text, struct arena *arena, struct bytes piece);

/* Adds all of another text, which may end inside a character only where its parts did. */
bool answer_text_copy(struct answer_text *text, struct arena *arena,
                      const struct answer_text *source);

/* Calls `visit` with one piece of the text after the other; false as soon as that returns false. */
bool answer_text_walk(const struct answer_text *text,
                      bool (*visit)(void *context, struct bytes piece), void *context);

/* Writes bytes [from, to) into the inside of a JSON string (escaped), or as they are. */
void answer_text_write(const struct answer_text *text, size_t from, size_t to, bool escaped,
                       struct json_writer *writer);

#endif
