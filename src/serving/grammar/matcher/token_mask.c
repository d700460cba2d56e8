/* SPDX-License-Identifier: Apache-2.0
 * Computes token masks. Traverses the vocabulary trie with each stack and marks the tokens that it
 * allows. Inside a string, a key, a number or a rule's own bytes, the tokens that stay inside
 * depend only on the state of the leaf's DFA; they come from the leaf cache. Stacks are advanced
 * only from the byte that leaves the leaf.
 */

#include "serving/grammar/matcher/grammar.h"
#include "serving/grammar/matcher/leaf_cache.h"

#define REMEMBERED_NODES_MIN 32 /* smaller subtrees are not cached for rules */

struct mask_walk {
    const struct grammar *grammar;
    const struct token_trie *trie;
    struct stack_table *table;
    struct leaf_cache *leaves;
    uint64_t *mask;
    uint64_t serial; /* number of this mask, see leaf_cache_mark */
};

/* ---- whole masks ---- */

#define MASKS_MAX 64

struct mask_cache {
    struct leaf_cache *leaves;
    uint64_t serial;
    uint32_t word_count, next;
    uint64_t contents[MASKS_MAX]; /* content hashes; 0: none */
    uint64_t *masks;              /* [MASKS_MAX][word_count] */
};

struct mask_cache *token_mask_cache_create(struct arena *arena, const struct token_trie *trie) {
    struct mask_cache *cache = arena_take_zeroed(arena, sizeof *cache);
    if (!cache) return NULL;
    cache->word_count = trie->word_count;
    cache->masks = arena_take(arena, (size_t)MASKS_MAX * trie->word_count * sizeof(uint64_t));
    cache->leaves = leaf_cache_create(arena, trie);
    return cache->masks && cache->leaves ? cache : NULL;
}

bool token_mask_cache_find(struct mask_cache *cache, uint64_t content, uint64_t *mask) {
    for (uint32_t i = 0; i < MASKS_MAX; i++) {
        if (cache->contents[i] != content || !content) continue;
        memcpy(mask, cache->masks + (size_t)i * cache->word_count, cache->word_count * 8);
        return true;
    }
    return false;
}

/* Replaces the oldest mask. */
void token_mask_cache_put(struct mask_cache *cache, uint64_t content, const uint64_t *mask) {
    uint32_t at = cache->next++ % MASKS_MAX;
    cache->contents[at] = content;
    memcpy(cache->masks + (size_t)at * cache->word_count, mask, cache->word_count * 8);
}

/* ---- traversing with a stack ---- */

static void token_mask_walk(struct mask_walk *at, uint32_t node, uint32_t number);

static void token_mask_take(struct mask_walk *at, uint32_t node, const struct stack_list *stacks) {
    if (stacks->count == 0) return;
    token_trie_mark(at->trie, node, at->mask);
    if (at->trie->nodes[node].size == 1) return;
    for (uint32_t i = 0; i < stacks->count; i++)
        token_mask_walk(at, node, stacks->frames[i]);
}

/* True if a byte may start or separate the parts of an array or object. */
static bool stands_between(uint8_t byte) {
    static const uint64_t set[2] = {
        UINT64_C(1) << ' ' | UINT64_C(1) << '\t' | UINT64_C(1) << '\r' | UINT64_C(1) << '\n' |
            UINT64_C(1) << '"' | UINT64_C(1) << ',' | UINT64_C(1) << ':' | UINT64_C(1) << '-' |
            UINT64_C(0x3FF) << '0',
        UINT64_C(1) << ('[' - 64) | UINT64_C(1) << (']' - 64) | UINT64_C(1) << ('{' - 64) |
            UINT64_C(1) << ('}' - 64) | UINT64_C(1) << ('t' - 64) | UINT64_C(1) << ('f' - 64) |
            UINT64_C(1) << ('n' - 64)};
    return byte < 128 && (set[byte / 64] >> byte % 64 & 1);
}

static void walk_bytes(struct mask_walk *at, uint32_t node, uint32_t frame) {
    const struct trie_node *nodes = at->trie->nodes;
    uint8_t kind = stack_table_at(at->table, frame)->kind;
    bool between = kind == STACK_ARRAY || kind == STACK_OBJECT;
    uint32_t end = node + nodes[node].size;
    for (uint32_t child = node + 1; child < end; child += nodes[child].size) {
        struct stack_list stacks;
        uint32_t frame_count = at->table->frame_count;
        if (between && !stands_between(nodes[child].byte)) continue;
        stacks.count = 0;
        grammar_step(at->grammar, at->table, frame, nodes[child].byte, &stacks);
        token_mask_take(at, child, &stacks);
        stack_table_truncate(at->table, frame_count);
    }
}

/* Advances a stack by the bytes from `node` to its descendant `to`, and continues there. */
static void walk_on(struct mask_walk *at, uint32_t node, uint32_t frame, uint32_t to) {
    const struct trie_node *nodes = at->trie->nodes;
    uint32_t below = to, frame_count = at->table->frame_count;
    struct stack_list stacks, next;
    while (nodes[below].token == TOKEN_NONE)
        below++;
    const char *text = at->trie->tokens[nodes[below].token].data;
    stacks.count = 1;
    stacks.frames[0] = frame;
    for (uint32_t i = nodes[node].depth; i < nodes[to].depth; i++) {
        next.count = 0;
        for (uint32_t t = 0; t < stacks.count; t++)
            grammar_step(at->grammar, at->table, stacks.frames[t], (uint8_t)text[i], &next);
        stacks.count = next.count;
        memcpy(stacks.frames, next.frames, next.count * sizeof *next.frames);
    }
    token_mask_take(at, to, &stacks);
    stack_table_truncate(at->table, frame_count);
}

static void close_filtered(struct mask_walk *at, uint32_t node, const struct stack_frame *frame,
                           struct string_position position) {
    uint32_t frame_count = at->table->frame_count;
    struct stack_frame here = *frame;
    struct stack_list stacks;
    stacks.count = 0;
    here.state = position.state;
    here.escape = 0;
    if (frame->kind == STACK_KEY &&
        object_step_key_is_open(at->grammar, stack_table_at(at->table, frame->below),
                                position.state))
        return;
    uint32_t closing = stack_table_put(at->table, &here, NULL);
    if (closing) grammar_step(at->grammar, at->table, closing, '"', &stacks);
    token_mask_take(at, node, &stacks);
    stack_table_truncate(at->table, frame_count);
}

/* Handles a leaf with a context-dependent set of allowed texts: a key among the remaining
 * properties, or a string among the remaining texts of a uniqueItems array. Few tokens match, so
 * results are not cached. Keys that are not listed properties are left to walk_leaf. */
static void walk_filtered(struct mask_walk *at, uint32_t node, uint32_t number,
                          struct string_position position, const struct key_filter *filter) {
    const struct trie_node *nodes = at->trie->nodes;
    const struct stack_frame *frame = stack_table_at(at->table, number);
    const struct text_leaf *leaf = &at->grammar->leaves[frame->subject];
    uint32_t end = node + nodes[node].size;
    for (uint32_t child = node + 1; child < end; child += nodes[child].size) {
        struct string_position next = position;
        if (nodes[child].byte == '"' && position.escape == 0) {
            close_filtered(at, child, frame, position);
        } else if (string_content_step(leaf, filter, &next, nodes[child].byte, NULL)) {
            token_trie_mark(at->trie, child, at->mask);
            if (nodes[child].size > 1) walk_filtered(at, child, number, next, filter);
        }
    }
}

/* ---- traversing with a leaf ---- */

static void end_leaf(struct mask_walk *at, uint32_t number, uint32_t state,
                     struct stack_list *stacks) {
    const struct stack_frame *frame = stack_table_at(at->table, number);
    stacks->count = 0;
    if (frame->kind == STACK_KEY)
        object_step_end_key(at->grammar, at->table, frame->below, state, 0, stacks);
    else
        value_step_end(at->grammar, at->table, frame->below, 0, stacks);
}

static void take_ends(struct mask_walk *at, uint32_t node, uint32_t number,
                      const struct leaf_end *ends, uint32_t count) {
    const struct stack_frame *frame = stack_table_at(at->table, number);
    bool tracked = frame->flags & STACK_TRACKED;
    struct stack_list stacks;
    uint32_t state = 0;
    bool known = false;
    for (uint32_t i = 0; i < count; i++) {
        if (tracked) {
            walk_on(at, node, number, ends[i].node);
            continue;
        }
        if (!known || (frame->kind == STACK_KEY && state != ends[i].state))
            end_leaf(at, number, ends[i].state, &stacks);
        known = true;
        state = ends[i].state;
        if (frame->kind != STACK_NUMBER) {
            token_mask_take(at, ends[i].node, &stacks);
            continue;
        }
        for (uint32_t t = 0; t < stacks.count; t++)
            token_mask_walk(at, ends[i].node, stacks.frames[t]);
    }
}

/* Handles a string without a pattern, with the trie's precomputed masks. */
static void take_free(struct mask_walk *at, uint32_t number, const struct text_leaf *leaf) {
    const struct stack_frame *frame = stack_table_at(at->table, number);
    const struct token_trie *trie = at->trie;
    bool bounded = leaf->length_max != SHAPE_UNBOUNDED;
    uint32_t left = bounded ? leaf->length_max - frame->state : UINT32_MAX;
    const uint64_t *inside = left > TOKEN_TRIE_WITHIN ? trie->inside : trie->within[left];
    uint32_t end_count = 0;
    struct stack_list stacks;
    if (left > TOKEN_TRIE_WITHIN && bounded && left < TOKEN_TRIE_BYTES_MAX) {
        inside = trie->within[TOKEN_TRIE_WITHIN];
        for (uint32_t i = 0; i < trie->long_count; i++) {
            uint32_t token = trie->long_tokens[i];
            if (trie->needs[token] <= left) at->mask[token / 64] |= UINT64_C(1) << token % 64;
        }
    }
    if (leaf_cache_is_new(at->leaves, inside, at->serial))
        for (uint32_t w = 0; w < trie->word_count; w++)
            at->mask[w] |= inside[w];
    for (uint32_t i = 0; i < trie->end_count; i++) {
        uint32_t characters = trie->ends[i].characters;
        if (characters > left || frame->state + characters < leaf->length_min) continue;
        if (frame->flags & STACK_TRACKED) {
            walk_on(at, 0, number, trie->ends[i].node);
            continue;
        }
        if (end_count++ == 0) end_leaf(at, number, 0, &stacks);
        token_mask_take(at, trie->ends[i].node, &stacks);
    }
}

static void walk_leaf(struct mask_walk *at, uint32_t node, uint32_t number, const uint64_t *open) {
    const struct stack_frame *frame = stack_table_at(at->table, number);
    const struct text_leaf *leaf = &at->grammar->leaves[frame->subject];
    if (node == 0 && frame->kind == STACK_STRING && !leaf->automaton && frame->escape == 0) {
        take_free(at, number, leaf);
        return;
    }
    const struct leaf_cache_entry *entry =
        leaf_cache_find(at->leaves, at->grammar,
                        &(struct leaf_key){.node = node,
                                           .leaf = frame->subject,
                                           .position = {frame->state, frame->escape},
                                           .is_number = frame->kind == STACK_NUMBER,
                                           .open = open});
    if (!entry) { /* the cache is full */
        walk_bytes(at, node, number);
        return;
    }
    leaf_cache_mark(at->leaves, entry, at->serial, at->mask);
    take_ends(at, node, number, entry->ends, entry->end_count);
    if (frame->kind == STACK_NUMBER && entry->ends_here)
        take_ends(at, node, number, &(struct leaf_end){node, frame->state}, 1);
}

/* Handles a rule. Its own bytes come from the leaf cache. Stacks follow only bytes that leave
 * it. */
static void token_mask_walk_rule(struct mask_walk *at, uint32_t node, uint32_t number) {
    const struct stack_frame *frame = stack_table_at(at->table, number);
    const struct leaf_cache_entry *entry = NULL;
    if (rule_step_must_end(at->grammar, at->table, number)) return;
    if (at->trie->nodes[node].size >= REMEMBERED_NODES_MIN)
        entry = leaf_cache_find(at->leaves, at->grammar,
                                &(struct leaf_key){.node = node,
                                                   .leaf = frame->subject,
                                                   .position = {.state = frame->state},
                                                   .is_rule = true});
    if (!entry) {
        walk_bytes(at, node, number);
        return;
    }
    leaf_cache_mark(at->leaves, entry, at->serial, at->mask);
    const struct leaf_end *ends = entry->ends;
    uint32_t end_count = entry->end_count;
    for (uint32_t i = 0; i < end_count; i++) {
        struct stack_list stacks;
        uint32_t frame_count = at->table->frame_count;
        stacks.count = 0;
        rule_step_leave(at->grammar, at->table, number, ends[i].state,
                        at->trie->nodes[ends[i].node].byte, &stacks);
        token_mask_take(at, ends[i].node, &stacks);
        stack_table_truncate(at->table, frame_count);
    }
}

static void token_mask_walk(struct mask_walk *at, uint32_t node, uint32_t number) {
    const struct stack_frame *frame = stack_table_at(at->table, number);
    struct key_filter filter;
    if (at->trie->nodes[node].size == 1) return;
    if (frame->kind == STACK_RULE) {
        token_mask_walk_rule(at, node, number);
        return;
    }
    bool leaf =
        frame->kind == STACK_STRING || frame->kind == STACK_KEY || frame->kind == STACK_NUMBER;
    if (leaf && frame->kind != STACK_KEY && (frame->flags & STACK_TRACKED)) {
        /* If a string's language is infinite, it can always differ from those seen. Other tracked
         * items need their stacks. */
        const struct automaton *automaton = at->grammar->leaves[frame->subject].automaton;
        leaf = frame->kind == STACK_STRING && !(automaton && automaton->member_counts);
    }
    bool number_in_rule =
        frame->kind == STACK_NUMBER && stack_table_at(at->table, frame->below)->kind == STACK_RULE;
    if (!leaf || number_in_rule) { /* any byte may follow a number in a rule */
        walk_bytes(at, node, number);
        return;
    }
    if (!value_step_filter(at->grammar, at->table, frame, &filter)) {
        walk_leaf(at, node, number, NULL);
        return;
    }
    if (filter.open) walk_leaf(at, node, number, filter.open);
    filter.open = NULL;
    walk_filtered(at, node, number, (struct string_position){frame->state, frame->escape}, &filter);
}

void token_mask_fill(const struct grammar *grammar, struct stack_table *table,
                     const struct stack_list *stacks, uint64_t *mask) {
    struct mask_walk at = {.grammar = grammar,
                           .trie = grammar->trie,
                           .table = table,
                           .leaves = grammar->masks->leaves,
                           .mask = mask,
                           .serial = ++grammar->masks->serial};
    leaf_cache_trim(at.leaves);
    for (uint32_t i = 0; i < stacks->count; i++)
        token_mask_walk(&at, 0, stacks->frames[i]);
}
