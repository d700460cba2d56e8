/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/matcher/stack_table.h"

#include "base/hash.h"

#define HEAD_WORDS (sizeof(struct stack_frame) / sizeof(uint64_t))
#define WORDS_A_FRAME (HEAD_WORDS + 1)

enum status stack_table_open(struct stack_table *table, struct arena *arena, uint32_t frame_max) {
    uint32_t head_count = 64;
    while (head_count < frame_max)
        head_count *= 2;
    *table = (struct stack_table){
        .word_count = frame_max * WORDS_A_FRAME,
        .frame_max = frame_max,
        .frame_count = 1,
        .head_mask = head_count - 1,
        .words = arena_take(arena, (size_t)frame_max * WORDS_A_FRAME * sizeof(uint64_t)),
        .starts = arena_take(arena, (size_t)frame_max * sizeof(uint32_t)),
        .heads = arena_take_zeroed(arena, (size_t)head_count * sizeof(uint32_t)),
    };
    return table->words && table->starts && table->heads ? STATUS_OK : STATUS_NO_MEMORY;
}

/* Independent of the order of the stacks. */
static uint64_t content_of_set(const struct stack_table *table, const uint64_t *tail,
                               uint32_t words) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < words; i++) {
        sum += stack_table_at(table, (uint32_t)tail[i])->content;
        if (tail[i] >> 32) sum += stack_table_at(table, (uint32_t)(tail[i] >> 32))->content;
    }
    return sum;
}

static uint64_t content_of(const struct stack_table *table, const struct stack_frame *frame,
                           const uint64_t *tail) {
    uint64_t hash = frame->below ? stack_table_at(table, frame->below)->content : 1;
    hash = hash_word(hash, (uint64_t)frame->subject << 32 | (uint32_t)frame->kind << 24 |
                               (uint32_t)frame->where << 16 | (uint32_t)frame->space << 8 |
                               frame->flags);
    hash = hash_word(hash, (uint64_t)frame->state << 32 | frame->escape);
    hash = hash_word(hash, frame->seen ? stack_table_at(table, frame->seen)->content : 0);
    hash = hash_word(hash, frame->hash ^ (uint64_t)frame->distinct << 48);
    if (frame->kind == STACK_SET)
        return hash_word(hash, content_of_set(table, tail, frame->tail_words));
    for (uint32_t i = 0; i < frame->tail_words; i++)
        hash = hash_word(hash, tail[i]);
    return hash;
}

static bool stack_table_is_same(const struct stack_frame *a, const struct stack_frame *b,
                                const uint64_t *b_tail) {
    return a->below == b->below && a->kind == b->kind && a->where == b->where &&
           a->space == b->space && a->flags == b->flags && a->tail_words == b->tail_words &&
           a->subject == b->subject && a->state == b->state && a->escape == b->escape &&
           a->seen == b->seen && a->distinct == b->distinct && a->hash == b->hash &&
           (!a->tail_words || memcmp(a->tail, b_tail, a->tail_words * sizeof(uint64_t)) == 0);
}

uint32_t stack_table_put(struct stack_table *table, const struct stack_frame *frame,
                         const uint64_t *tail) {
    uint64_t content = content_of(table, frame, tail);
    uint32_t *head = &table->heads[content & table->head_mask];
    for (uint32_t at = *head; at; at = stack_table_at(table, at)->chain)
        if (stack_table_at(table, at)->content == content &&
            stack_table_is_same(stack_table_at(table, at), frame, tail))
            return at;
    uint32_t words = HEAD_WORDS + frame->tail_words;
    if (table->frame_count == table->frame_max || words > table->word_count - table->word_used)
        return STACK_NONE;
    uint32_t number = table->frame_count++;
    table->starts[number] = table->word_used;
    struct stack_frame *new = (struct stack_frame *)(table->words + table->word_used);
    table->word_used += words;
    *new = *frame;
    new->content = content;
    new->chain = *head;
    if (frame->tail_words) memcpy(new->tail, tail, frame->tail_words * sizeof(uint64_t));
    *head = number;
    return number;
}

void stack_table_truncate(struct stack_table *table, uint32_t frame_count) {
    while (table->frame_count > frame_count) {
        const struct stack_frame *last = stack_table_at(table, --table->frame_count);
        table->heads[last->content & table->head_mask] = last->chain;
        table->word_used = table->starts[table->frame_count];
    }
}
