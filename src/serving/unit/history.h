/* SPDX-License-Identifier: Apache-2.0
 * The last tokens of a sequence, prompt and answer, for penalties. Only requests with penalties
 * have a history. It has at most LIMIT_HISTORY_TOKENS, which bounds the size of plans; older tokens
 * are dropped.
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

/* Starts with the last of `tokens`: the prompt, followed by the known tokens of the answer. The
 * answer has at most new_tokens_max. Returns false if the arena is out of memory. */
bool history_open(struct history *history, struct arena *arena, const uint32_t *tokens,
                  uint32_t prompt_count, uint32_t answer_count, uint32_t new_tokens_max);

/* Appends a token of the answer. Does nothing to a history that was never opened. */
void history_add(struct history *history, uint32_t token);
