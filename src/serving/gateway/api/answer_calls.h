/* SPDX-License-Identifier: Apache-2.0
 * The calls of tools in an answer, as they come: a list in the request's arena.
 */
#ifndef SERVING_GATEWAY_API_ANSWER_CALLS_H
#define SERVING_GATEWAY_API_ANSWER_CALLS_H

#include "serving/gateway/api/answer_text.h"

struct answer_call {
    struct answer_call *next;
    struct bytes id, name;
    struct answer_text arguments; /* JSON text, as the model wrote it */
    size_t content_at;            /* bytes of the answer's content that come before it */
};

struct answer_calls {
    struct answer_call *first, *last;
    uint32_t count;
    size_t escaped_count; /* bytes of ids, names and arguments, once written inside JSON strings */
};

/* Copies `id` and `name`. Both functions: false when the arena is out of memory. */
bool answer_calls_add(struct answer_calls *calls, struct arena *arena, struct bytes id,
                      struct bytes name, size_t content_at);

/* Of the last call. */
bool answer_calls_add_arguments(struct answer_calls *calls, struct arena *arena,
                                struct bytes piece);

#endif
