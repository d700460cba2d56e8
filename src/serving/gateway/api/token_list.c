/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/token_list.h"

#include "base/check.h"

#define BLOCK_TOKENS_MIN 64u
#define BLOCK_TOKENS_MAX 4096u

struct token_block {
    struct token_block *next;
    uint32_t room, count; /* tokens */
    struct token_logprob entries[];
};

static struct token_block *block_add(struct token_list *list, struct arena *arena) {
    uint32_t room = list->count < BLOCK_TOKENS_MIN   ? BLOCK_TOKENS_MIN
                    : list->count > BLOCK_TOKENS_MAX ? BLOCK_TOKENS_MAX
                                                     : list->count;
    struct token_block *block =
        arena_take(arena, sizeof *block + (size_t)room * list->each * sizeof *block->entries);
    if (!block) return NULL;
    *block = (struct token_block){.room = room};
    if (list->last)
        list->last->next = block;
    else
        list->first = block;
    list->last = block;
    return block;
}

bool token_list_add(struct token_list *list, struct arena *arena,
                    const struct token_logprob *entries, uint32_t each) {
    check(each > 0 && (list->count == 0 || each == list->each));
    list->each = each;
    struct token_block *block = list->last;
    if (!block || block->count == block->room) block = block_add(list, arena);
    if (!block) return false;
    memcpy(block->entries + (size_t)block->count * each, entries, each * sizeof *entries);
    block->count++;
    list->count++;
    return true;
}

void token_list_visit(const struct token_list *list, uint32_t from, uint32_t to,
                      token_list_visitor *visit, void *context) {
    uint32_t index = 0;
    for (const struct token_block *block = list->first; block && index < to; block = block->next)
        for (uint32_t i = 0; i < block->count && index < to; i++, index++)
            if (index >= from) visit(context, index, block->entries + (size_t)i * list->each);
}
