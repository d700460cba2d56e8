/* SPDX-License-Identifier: Apache-2.0
 * The most recent tokens of a sequence, prompt and answer, for sampling penalties. Only requests
 * with penalties have a history. It holds at most LIMIT_HISTORY_TOKENS tokens, which bounds the
 * size of plans. Older tokens are dropped.
 */
#pragma once

#include "base/arena.h"
#include "base/limits.h"

struct history {
    uint32_t *tokens; /* [count] */
    uint32_t capacity;
    uint32_t count;
    uint32_t prompt_count; /* tokens of the prompt, at the start */
};

/* Fills the history with the last tokens of `tokens`, which has the prompt and then answer_count
 * tokens of the answer. The answer will have at most new_tokens_max tokens. Returns false if the
 * arena is out of memory. */
bool history_open(struct history *history, struct arena *arena, const uint32_t *tokens,
                  uint32_t prompt_count, uint32_t answer_count, uint32_t new_tokens_max);

/* Appends a token of the answer. Does nothing to a history that was never opened. */
void history_add(struct history *history, uint32_t token);
