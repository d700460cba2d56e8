/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/matcher/matcher.h"

#include "serving/grammar/matcher/grammar.h"
#include "serving/grammar/rules/grammar_program.h"

#define FRAMES_MAX 12288

struct matcher {
    struct grammar *grammar;
    struct stack_table table, spare; /* matcher_compact copies from one to the other */
    uint32_t *moved;                 /* [FRAMES_MAX] new numbers of frames */
    struct stack_list here, next;    /* before and after the current byte */
};

enum status matcher_grammar_open(struct arena *arena, const struct grammar_program *program,
                                 const struct token_trie *trie, struct grammar **out,
                                 struct error *error) {
    struct grammar *grammar = arena_take(arena, sizeof *grammar);
    if (!grammar || grammar_read(arena, program->shapes, grammar))
        return error_set(error, STATUS_NO_MEMORY, "no memory for a grammar");
    grammar->rules = program->rules;
    grammar->has_tokens = program->has_tokens;
    grammar->trie = trie;
    grammar->masks = token_mask_cache_create(arena, trie);
    if (!grammar->masks) return error_set(error, STATUS_NO_MEMORY, "no memory for masks");
    *out = grammar;
    return STATUS_OK;
}

enum status matcher_open(struct arena *arena, struct grammar *grammar, struct matcher **out) {
    struct matcher *matcher = arena_take(arena, sizeof *matcher);
    uint32_t *moved = arena_take(arena, FRAMES_MAX * sizeof *moved);
    if (!matcher || !moved) return STATUS_NO_MEMORY;
    matcher->grammar = grammar;
    matcher->moved = moved;
    enum status status = stack_table_open(&matcher->table, arena, FRAMES_MAX);
    if (!status) status = stack_table_open(&matcher->spare, arena, FRAMES_MAX);
    if (!status) *out = matcher;
    return status;
}

const struct token_trie *matcher_trie(const struct matcher *matcher) {
    return matcher->grammar->trie;
}

/* ---- positions ---- */

static void list_stacks(const struct stack_table *table, uint32_t number, struct stack_list *out) {
    const struct stack_frame *frame = stack_table_at(table, number);
    out->count = 0;
    if (frame->kind != STACK_SET) {
        out->frames[out->count++] = number;
        return;
    }
    for (uint32_t i = 0; i < frame->tail_words; i++) {
        out->frames[out->count++] = (uint32_t)frame->tail[i];
        if (frame->tail[i] >> 32) out->frames[out->count++] = (uint32_t)(frame->tail[i] >> 32);
    }
}

/* Orders stacks by content. The order does not depend on the table, so which stacks are dropped
 * beyond GRAMMAR_STACKS_MAX does not depend on the matcher's history. */
static bool comes_behind(const struct stack_table *table, uint32_t a, uint32_t b) {
    return stack_table_at(table, a)->content > stack_table_at(table, b)->content;
}

/* The position of a set of stacks. Sorts them, so that equal sets get equal numbers. */
static uint32_t matcher_number_of(struct stack_table *table, struct stack_list *stacks) {
    if (stacks->count < 2) return stacks->count ? stacks->frames[0] : STACK_NONE;
    uint64_t tail[GRAMMAR_STACKS_MAX / 2];
    uint32_t words = (stacks->count + 1) / 2;
    for (uint32_t i = 1; i < stacks->count; i++) {
        uint32_t each = stacks->frames[i], at = i;
        for (; at > 0 && comes_behind(table, stacks->frames[at - 1], each); at--)
            stacks->frames[at] = stacks->frames[at - 1];
        stacks->frames[at] = each;
    }
    memset(tail, 0, words * sizeof *tail);
    for (uint32_t i = 0; i < stacks->count; i++)
        tail[i / 2] |= (uint64_t)stacks->frames[i] << 32 * (i % 2);
    struct stack_frame set = {.kind = STACK_SET, .tail_words = (uint16_t)words};
    return stack_table_put(table, &set, tail);
}

struct grammar_position matcher_begin(struct matcher *matcher) {
    return (struct grammar_position){rule_step_begin(matcher->grammar, &matcher->table)};
}

static void step_all(struct matcher *matcher, uint8_t byte) {
    matcher->next.count = 0;
    for (uint32_t i = 0; i < matcher->here.count; i++)
        grammar_step(matcher->grammar, &matcher->table, matcher->here.frames[i], byte,
                     &matcher->next);
}

struct grammar_position matcher_push(struct matcher *matcher, struct grammar_position from,
                                     struct bytes bytes) {
    if (from.number == STACK_NONE) return from;
    list_stacks(&matcher->table, from.number, &matcher->here);
    for (size_t i = 0; i < bytes.count && matcher->here.count; i++) {
        step_all(matcher, (uint8_t)bytes.data[i]);
        matcher->here.count = matcher->next.count;
        memcpy(matcher->here.frames, matcher->next.frames,
               matcher->next.count * sizeof *matcher->next.frames);
    }
    return (struct grammar_position){matcher_number_of(&matcher->table, &matcher->here)};
}

/* Advances the stacks in `here` by an added token, into `next`. */
static void step_token(struct matcher *matcher, uint32_t token) {
    matcher->next.count = 0;
    for (uint32_t i = 0; matcher->grammar->has_tokens && i < matcher->here.count; i++) {
        uint32_t rule =
            grammar_rule_below(matcher->grammar, &matcher->table, matcher->here.frames[i]);
        if (rule) rule_step_token(matcher->grammar, &matcher->table, rule, token, &matcher->next);
    }
}

struct grammar_position matcher_push_token(struct matcher *matcher, struct grammar_position from,
                                           uint32_t token) {
    const struct token_trie *trie = matcher->grammar->trie;
    struct grammar_position by_bytes = {STACK_NONE};
    if (token >= trie->token_count || from.number == STACK_NONE) return by_bytes;
    if (trie->tokens[token].count) by_bytes = matcher_push(matcher, from, trie->tokens[token]);
    if (!matcher->grammar->has_tokens) return by_bytes;
    list_stacks(&matcher->table, from.number, &matcher->here);
    step_token(matcher, token);
    matcher->here.count = 0;
    if (by_bytes.number) list_stacks(&matcher->table, by_bytes.number, &matcher->here);
    for (uint32_t i = 0; i < matcher->here.count; i++)
        grammar_add_stack(&matcher->next, matcher->here.frames[i]);
    return (struct grammar_position){matcher_number_of(&matcher->table, &matcher->next)};
}

bool matcher_may_end(const struct matcher *matcher, struct grammar_position at) {
    struct stack_list stacks;
    if (at.number == STACK_NONE) return false;
    list_stacks(&matcher->table, at.number, &stacks);
    for (uint32_t i = 0; i < stacks.count; i++) {
        uint32_t rule = grammar_rule_below(matcher->grammar, &matcher->table, stacks.frames[i]);
        if (rule && rule_step_may_end(matcher->grammar, &matcher->table, rule)) return true;
    }
    return false;
}

bool matcher_must_end(const struct matcher *matcher, struct grammar_position at) {
    struct stack_list stacks;
    if (at.number == STACK_NONE) return false;
    list_stacks(&matcher->table, at.number, &stacks);
    for (uint32_t i = 0; i < stacks.count; i++)
        if (!rule_step_must_end(matcher->grammar, &matcher->table, stacks.frames[i])) return false;
    return true;
}

/* ---- the next tokens ---- */

/* Computes the added tokens that the stacks allow. The caller removes the frames that it pushes. */
static struct next_tokens matcher_look(struct matcher *matcher, const struct stack_list *stacks,
                                       uint64_t *mask) {
    struct next_tokens allowed = {.mask = mask, .token = TOKEN_NONE};
    for (uint32_t i = 0; i < stacks->count; i++) {
        uint32_t rule = grammar_rule_below(matcher->grammar, &matcher->table, stacks->frames[i]);
        allowed.bytes |= rule != stacks->frames[i];
        if (rule) rule_step_look(matcher->grammar, &matcher->table, rule, &allowed);
    }
    return allowed;
}

void matcher_mask(struct matcher *matcher, struct grammar_position at, uint64_t *mask) {
    const struct token_trie *trie = matcher->grammar->trie;
    struct stack_list stacks;
    memset(mask, 0, trie->word_count * sizeof *mask);
    if (at.number == STACK_NONE) return;
    uint64_t content = stack_table_at(&matcher->table, at.number)->content;
    if (token_mask_cache_find(matcher->grammar->masks, content, mask)) return;
    list_stacks(&matcher->table, at.number, &stacks);
    uint32_t frame_count = matcher->table.frame_count;
    token_mask_fill(matcher->grammar, &matcher->table, &stacks, mask);
    if (matcher->grammar->has_tokens) (void)matcher_look(matcher, &stacks, mask);
    stack_table_truncate(&matcher->table, frame_count);
    token_mask_cache_put(matcher->grammar->masks, content, mask);
}

void matcher_mask_slowly(struct matcher *matcher, struct grammar_position at, uint64_t *mask) {
    const struct token_trie *trie = matcher->grammar->trie;
    memset(mask, 0, trie->word_count * sizeof *mask);
    for (uint32_t t = 0; t < trie->token_count; t++) {
        uint32_t frame_count = matcher->table.frame_count;
        if (matcher_push_token(matcher, at, t).number) mask[t / 64] |= UINT64_C(1) << t % 64;
        stack_table_truncate(&matcher->table, frame_count);
    }
}

bool matcher_forced_token(struct matcher *matcher, struct grammar_position at,
                          uint32_t *token_out) {
    struct stack_list stacks;
    if (!matcher->grammar->has_tokens || at.number == STACK_NONE || matcher_may_end(matcher, at))
        return false;
    list_stacks(&matcher->table, at.number, &stacks);
    uint32_t frame_count = matcher->table.frame_count;
    struct next_tokens allowed = matcher_look(matcher, &stacks, NULL);
    stack_table_truncate(&matcher->table, frame_count);
    if (allowed.bytes || allowed.several || allowed.token == TOKEN_NONE) return false;
    *token_out = allowed.token;
    return true;
}

/* ---- compacting ---- */

/* Marks the frames that a frame refers to. They have smaller numbers. */
static void mark_named(const struct stack_table *table, uint32_t number, uint32_t *moved) {
    const struct stack_frame *frame = stack_table_at(table, number);
    moved[frame->below] = 1;
    moved[frame->seen] = 1;
    for (uint32_t i = 0; frame->kind == STACK_SET && i < frame->tail_words; i++) {
        moved[(uint32_t)frame->tail[i]] = 1;
        moved[frame->tail[i] >> 32] = 1;
    }
}

static uint32_t matcher_move(struct matcher *matcher, uint32_t number) {
    const uint32_t *moved = matcher->moved;
    const struct stack_frame *frame = stack_table_at(&matcher->table, number);
    struct stack_frame copy = *frame;
    uint64_t tail[GRAMMAR_STACKS_MAX / 2];
    copy.below = moved[frame->below];
    copy.seen = moved[frame->seen];
    for (uint32_t i = 0; frame->kind == STACK_SET && i < frame->tail_words; i++)
        tail[i] = moved[(uint32_t)frame->tail[i]] | (uint64_t)moved[frame->tail[i] >> 32] << 32;
    return stack_table_put(&matcher->spare, &copy, frame->kind == STACK_SET ? tail : frame->tail);
}

bool matcher_compact(struct matcher *matcher, struct grammar_position *at) {
    struct stack_table *table = &matcher->table;
    bool much_left =
        table->frame_count < table->frame_max / 2 && table->word_used < table->word_count / 2;
    if (at->number == STACK_NONE || much_left) return at->number != STACK_NONE;
    memset(matcher->moved, 0, (at->number + 1) * sizeof *matcher->moved);
    matcher->moved[at->number] = 1;
    for (uint32_t i = at->number; i > 0; i--)
        if (matcher->moved[i]) mark_named(table, i, matcher->moved);
    matcher->moved[STACK_NONE] = STACK_NONE;
    stack_table_truncate(&matcher->spare, 1);
    for (uint32_t i = 1; i <= at->number; i++)
        if (matcher->moved[i]) matcher->moved[i] = matcher_move(matcher, i);
    at->number = matcher->moved[at->number];
    struct stack_table old = *table;
    *table = matcher->spare;
    matcher->spare = old;
    return table->frame_count < table->frame_max / 2 && table->word_used < table->word_count / 2;
}
