/* SPDX-License-Identifier: Apache-2.0
 * The last tokens of a sequence, prompt and answer, in order: what penalties look at. Only requests
 * with penalties keep one; it never holds more than LIMIT_HISTORY_TOKENS, so that a plan of many
 * rows stays bounded, and older tokens fall out.
 */
#ifndef SERVING_UNIT_HISTORY_H
#define SERVING_UNIT_HISTORY_H

#include "base/arena.h"
#include "base/limits.h"

struct history {
    uint32_t *tokens; /* [count] */
    uint32_t capacity;
    uint32_t count;
    uint32_t prompt_count; /* of them, at the start, came with the prompt */
};

/* Begins with the last of `tokens`: the prompt's, and behind them those of the answer that are
 * known already. An answer has at most new_tokens_max. False when the arena is out of memory. */
bool history_open(struct history *history, struct arena *arena, const uint32_t *tokens,
                  uint32_t prompt_count, uint32_t answer_count, uint32_t new_tokens_max);

/* A token of the answer. Nothing happens to a history that was never opened. */
void history_add(struct history *history, uint32_t token);

#endif
