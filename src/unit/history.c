/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/history.h"

bool history_open(struct history *history, struct arena *arena, const uint32_t *prompt,
                  uint32_t prompt_count, uint32_t new_tokens_max) {
    uint64_t tokens = (uint64_t)prompt_count + new_tokens_max;
    uint32_t capacity = tokens < LIMIT_HISTORY_TOKENS ? (uint32_t)tokens : LIMIT_HISTORY_TOKENS;
    uint32_t kept = prompt_count < capacity ? prompt_count : capacity;
    uint32_t *memory = arena_take(arena, capacity * sizeof *memory);
    if (!memory) return false;
    memcpy(memory, prompt + (prompt_count - kept), kept * sizeof *memory);
    *history = (struct history){memory, capacity, kept, kept};
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
