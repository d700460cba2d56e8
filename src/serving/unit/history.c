/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/unit/history.h"

bool history_open(struct history *history, struct arena *arena, const uint32_t *tokens,
                  uint32_t prompt_count, uint32_t answer_count, uint32_t new_tokens_max) {
    uint64_t most = (uint64_t)prompt_count + new_tokens_max;
    uint32_t capacity = most < LIMIT_HISTORY_TOKENS ? (uint32_t)most : LIMIT_HISTORY_TOKENS;
    uint32_t known = prompt_count + answer_count, kept = known < capacity ? known : capacity;
    uint32_t *memory = arena_take(arena, capacity * sizeof *memory);
    if (!memory) return false;
    memcpy(memory, tokens + (known - kept), kept * sizeof *memory);
    *history =
        (struct history){memory, capacity, kept, kept > answer_count ? kept - answer_count : 0};
    return true;
}

void history_add(struct history *history, uint32_t token) {
    if (history->capacity == 0) return;
    if (history->count == history->capacity) {
        memmove(history->tokens, history->tokens + 1,
                (history->count - 1) * sizeof *history->tokens);
        history->count--;
        if (history->prompt_count) history->prompt_count--;
    }
    history->tokens[history->count++] = token;
}
