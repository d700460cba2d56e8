/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/token_list.h"

#include "base/check.h"

#define BLOCK_TOKENS_MIN 64u
#define BLOCK_TOKENS_MAX 4096u
#define GROWTH_PART 4 /* a block is 1/4 of all blocks before it */

struct token_block {
    struct token_block *next;
    uint32_t room; /* in tokens; all blocks except the last are full */
    /* [room][each] struct token_logprob, or [room] uint32_t for tokens without log probabilities */
    _Alignas(8) char memory[];
};

static size_t token_bytes(const struct token_list *list) {
    return list->each ? list->each * sizeof(struct token_logprob) : sizeof(uint32_t);
}

static bool token_list_block_add(struct token_list *list, struct arena *arena) {
    uint32_t part = list->count / GROWTH_PART;
    uint32_t room = part < BLOCK_TOKENS_MIN   ? BLOCK_TOKENS_MIN
                    : part > BLOCK_TOKENS_MAX ? BLOCK_TOKENS_MAX
                                              : part;
    struct token_block *block = arena_take(arena, sizeof *block + room * token_bytes(list));
    if (!block) return false;
    *block = (struct token_block){.room = room};
    if (list->last)
        list->last->next = block;
    else
        list->first = block;
    list->last = block;
    list->at = block->memory;
    list->room = room;
    return true;
}

static void commit_recent(struct token_list *list) {
    size_t bytes = list->recent_count * sizeof *list->recent;
    memcpy(list->at, list->recent, bytes);
    list->at += bytes;
    list->recent_count = 0;
}

static void put_token(struct token_list *list, const struct token_logprob *entries) {
    if (list->each == 0) {
        list->recent[list->recent_count++] = entries->token;
        if (list->recent_count == TOKEN_LIST_RECENT || list->room == 1) commit_recent(list);
        return;
    }
    size_t bytes = token_bytes(list);
    memcpy(list->at, entries, bytes);
    list->at += bytes;
}

bool token_list_add(struct token_list *list, struct arena *arena,
                    const struct token_logprob *entries, uint32_t each) {
    check(list->count == 0 || each == list->each);
    list->each = each;
    if (list->room == 0 && !token_list_block_add(list, arena)) return false;
    put_token(list, entries);
    list->room--;
    list->count++;
    return true;
}

static void visit_one(const struct token_list *list, const struct token_block *block, uint32_t i,
                      uint32_t index, token_list_visitor *visit, void *context) {
    const void *at = block->memory + i * token_bytes(list);
    uint32_t committed = list->count - list->recent_count;
    if (index >= committed) at = &list->recent[index - committed];
    struct token_logprob bare = {.token = *(const uint32_t *)at};
    visit(context, index, list->each ? (const struct token_logprob *)at : &bare);
}

void token_list_visit(const struct token_list *list, uint32_t from, uint32_t to,
                      token_list_visitor *visit, void *context) {
    uint32_t index = 0;
    if (to > list->count) to = list->count;
    for (const struct token_block *block = list->first; block && index < to; block = block->next)
        for (uint32_t i = 0; i < block->room && index < to; i++, index++)
            if (index >= from) visit_one(list, block, i, index, visit, context);
}

bool token_list_turn(struct token_list *list, struct arena *arena, bool reasons) {
    if (reasons == (list->last_turn && list->last_turn->reasons)) return true;
    struct token_turn *turn = arena_take(arena, sizeof *turn);
    if (!turn) return false;
    *turn = (struct token_turn){.from = list->count, .reasons = reasons};
    if (list->last_turn)
        list->last_turn->next = turn;
    else
        list->first_turn = turn;
    list->last_turn = turn;
    return true;
}

bool token_list_next_turn(const struct token_list *list, uint32_t *from, uint32_t to,
                          bool *reasons) {
    const struct token_turn *turn = list->first_turn;
    if (*from >= to) return false;
    *reasons = false;
    for (; turn && turn->from <= *from; turn = turn->next)
        *reasons = turn->reasons;
    *from = turn && turn->from < to ? turn->from : to;
    return true;
}
