/* SPDX-License-Identifier: Apache-2.0
 * The last tokens of a sequence, prompt and answer, in order, for penalties. Only requests with
 * penalties have one. It never holds more than LIMIT_HISTORY_TOKENS, so that a plan of many rows
 * stays bounded; older tokens are dropped.
 */
#ifndef SERVING_UNIT_HISTORY_H
#define SERVING_UNIT_HISTORY_H

#include "base/arena.h"
#include "base/limits.h"

struct history {
    uint32_t *tokens; /* [count] */
    uint32_t capacity;
    uint32_t count;
    uint32_t prompt_count; /* those from the prompt, at the start */
};

/* Begins with the last of `tokens`: the prompt's, followed by the known ones of the answer. An
 * answer has at most new_tokens_max. False when the arena is out of memory. */
bool history_open(struct history *history, struct arena *arena, const uint32_t *tokens,
                  uint32_t prompt_count, uint32_t answer_count, uint32_t new_tokens_max);

/* Adds a token of the answer. Does nothing to a history that was never opened. */
void history_add(struct history *history, uint32_t token);

#endif
