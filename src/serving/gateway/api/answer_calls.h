/* SPDX-License-Identifier: Apache-2.0
 * The tool calls of an answer: a list in the request's arena that grows while the answer is made.
 */
#pragma once

#include "contract/ids.h"
#include "serving/gateway/api/answer_text.h"

struct answer_call {
    struct answer_call *next;
    struct bytes id, name;
    struct answer_text arguments; /* JSON text, as the model wrote it */
    size_t text_at;               /* bytes of the answer's text before the call */
    uint32_t token_at;            /* index in the answer of the token that began it */
};

struct answer_calls {
    struct answer_call *first, *last;
    uint32_t count;
    size_t escaped_count; /* bytes of ids, names and arguments, escaped for JSON strings */
};

/* Copies `id` and `name`. False when the arena is out of memory. */
bool answer_calls_add(struct answer_calls *calls, struct arena *arena, struct bytes id,
                      struct bytes name, size_t text_at, uint32_t token_at);

#define ANSWER_CALLS_ID_BYTES 64

/* Makes a terminated id for a call that the model gave none: the prefix and `digits` (at most 24)
 * hexadecimal digits, derived from the request's id, the choice and the call's index. */
void answer_calls_make_id(const char *prefix, uint32_t digits, struct request_id request,
                          uint32_t choice, uint32_t call, char out[ANSWER_CALLS_ID_BYTES]);

/* Writes a call's arguments as a JSON object. If they are none, because the answer was cut or the
 * model erred, the object is {"INVALID_JSON": their text}. */
void answer_calls_write_object(struct json_writer *writer, const struct answer_text *arguments);

/* Appends to the last call's arguments. False when the arena is out of memory; the part that fitted
 * is kept. */
bool answer_calls_add_arguments(struct answer_calls *calls, struct arena *arena,
                                struct bytes piece);
