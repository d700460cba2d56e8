/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/matcher/leaf_cache.h"

#include "base/hash.h"
#include "serving/grammar/automata/automaton.h"
#include "serving/grammar/matcher/grammar.h"

#define ENTRIES_MAX 4096 /* half of the hash table */
#define KNOWN_MAX 256
#define WORDS_MAX (256u << 10)
#define RULE_ENDS_MAX (32u << 10) /* ends of one entry of a rule */

struct leaf_cache {
    const struct token_trie *trie;
    struct leaf_cache_entry *entries; /* [ENTRIES_MAX] */
    uint32_t entry_count, word_used;
    uint32_t slots[2 * ENTRIES_MAX]; /* hash table: index of an entry plus 1; 0: free */
    uint64_t *words;                 /* [WORDS_MAX] memory that entries point to */
    uint64_t *found;                 /* [word_count] mask of the entry being computed */
    const uint64_t *added;           /* leaf_cache_is_new: the last mask and its serial */
    uint64_t added_serial;
    struct {
        const struct automaton *automaton;
        uint32_t state;
        bool is_free;
    } known[KNOWN_MAX]; /* cached results of leaf_cache_is_free */
};

struct leaf_cache *leaf_cache_create(struct arena *arena, const struct token_trie *trie) {
    struct leaf_cache *cache = arena_take_zeroed(arena, sizeof *cache);
    if (!cache) return NULL;
    cache->trie = trie;
    cache->entries = arena_take(arena, ENTRIES_MAX * sizeof *cache->entries);
    cache->words = arena_take(arena, WORDS_MAX * sizeof *cache->words);
    cache->found = arena_take(arena, (trie->word_count + 1) * sizeof *cache->found);
    return cache->entries && cache->words && cache->found ? cache : NULL;
}

void leaf_cache_trim(struct leaf_cache *cache) {
    if (cache->entry_count < ENTRIES_MAX / 2 && cache->word_used < WORDS_MAX / 2) return;
    cache->entry_count = 0;
    cache->word_used = 0;
    memset(cache->slots, 0, sizeof cache->slots);
}

bool leaf_cache_is_new(struct leaf_cache *cache, const uint64_t *inside, uint64_t serial) {
    bool is_new = cache->added != inside || cache->added_serial != serial;
    cache->added = inside;
    cache->added_serial = serial;
    return is_new;
}

/* ---- computing an entry ---- */

static void leaf_cache_note_inside(struct leaf_cache *cache, struct leaf_cache_entry *entry,
                                   uint32_t node) {
    const struct token_trie *trie = cache->trie;
    for (uint32_t t = trie->nodes[node].token; t != TOKEN_NONE; t = trie->same_bytes[t]) {
        cache->found[t / 64] |= UINT64_C(1) << t % 64;
        entry->inside_count++;
    }
}

static void walk_number(struct leaf_cache *cache, const struct automaton *automaton,
                        struct leaf_cache_entry *entry, struct leaf_end *ends) {
    const struct trie_node *nodes = cache->trie->nodes;
    uint32_t path[TOKEN_TRIE_BYTES_MAX + 1], first = entry->key.node;
    path[nodes[first].depth] = entry->key.position.state;
    entry->ends_here = automaton->labels[entry->key.position.state] &&
                       token_trie_leaves_number(cache->trie, first);
    for (uint32_t i = first + 1; i < first + nodes[first].size;) {
        uint32_t state = automaton_step(automaton, path[nodes[i].depth - 1], nodes[i].byte);
        if (!state) {
            i += nodes[i].size;
            continue;
        }
        path[nodes[i].depth] = state;
        leaf_cache_note_inside(cache, entry, i);
        if (automaton->labels[state] && token_trie_leaves_number(cache->trie, i))
            ends[entry->end_count++] = (struct leaf_end){i, state};
        i++;
    }
}

/* Returns false if tokens leave the rule at more than ends_max nodes. */
static bool leaf_cache_rule(struct leaf_cache *cache, const struct grammar *grammar,
                            struct leaf_cache_entry *entry, struct leaf_end *ends,
                            uint32_t ends_max) {
    const struct trie_node *nodes = cache->trie->nodes;
    const struct grammar_rule *rule = &grammar->rules[entry->key.leaf];
    uint32_t path[TOKEN_TRIE_BYTES_MAX + 1], first = entry->key.node;
    path[nodes[first].depth] = entry->key.position.state;
    for (uint32_t i = first + 1; i < first + nodes[first].size;) {
        uint32_t before = path[nodes[i].depth - 1];
        uint32_t state = automaton_step(rule->automaton, before, nodes[i].byte);
        if (rule_step_leaves(grammar, rule, before, nodes[i].byte)) {
            if (entry->end_count == ends_max) return false;
            ends[entry->end_count++] = (struct leaf_end){i, before};
        }
        if (!state) {
            i += nodes[i].size;
            continue;
        }
        path[nodes[i].depth] = state;
        leaf_cache_note_inside(cache, entry, i);
        i++;
    }
    return true;
}

/* A traversal of the trie with a string's DFA. */
struct string_walk {
    struct leaf_cache *cache;
    const struct text_leaf *leaf;
    struct leaf_cache_entry *entry;
    struct leaf_end *ends;
    const struct key_filter *filter; /* NULL: follow all live states */
    bool aligned;      /* the position equals that of the trie's precomputed traversal */
    bool clears;       /* start with all tokens inside and clear; else start with none and set */
    uint32_t next_end; /* position in the trie's list of ends */
};

static bool leaf_cache_is_free(struct leaf_cache *cache, const struct automaton *automaton,
                               uint32_t state) {
    if (automaton_step(automaton, state, 'a') != state ||
        automaton_step(automaton, state, '"') != state)
        return false;
    uint32_t at = (state ^ (uint32_t)((uintptr_t)automaton >> 4)) % KNOWN_MAX;
    if (cache->known[at].automaton != automaton || cache->known[at].state != state) {
        cache->known[at].automaton = automaton;
        cache->known[at].state = state;
        cache->known[at].is_free = automaton_takes_all(automaton, state);
    }
    return cache->known[at].is_free;
}

/* True if the state is between two characters: no continuation byte may come. */
static bool leaf_cache_is_between(const struct automaton *automaton, uint32_t state) {
    for (uint32_t byte = 0x80; byte <= 0xBF; byte++)
        if (automaton_step(automaton, state, (uint8_t)byte)) return false;
    return true;
}

static void note_range(struct string_walk *walk, uint32_t node, bool stays) {
    const struct token_trie *trie = walk->cache->trie;
    uint64_t *found = walk->cache->found;
    uint32_t end = trie->inside_before[node + trie->nodes[node].size];
    if (!walk->aligned || stays != !walk->clears) return;
    for (uint32_t i = trie->inside_before[node]; i < end; i++) {
        uint32_t token = trie->inside_tokens[i];
        uint64_t bit = UINT64_C(1) << token % 64;
        found[token / 64] = stays ? found[token / 64] | bit : found[token / 64] & ~bit;
        walk->entry->inside_count++;
    }
}

static void take_free_part(struct string_walk *walk, uint32_t node, uint32_t state) {
    const struct token_trie *trie = walk->cache->trie;
    note_range(walk, node, true);
    while (walk->next_end < trie->end_count && trie->ends[walk->next_end].node < node)
        walk->next_end++;
    for (; walk->next_end < trie->end_count &&
           trie->ends[walk->next_end].node < node + trie->nodes[node].size;
         walk->next_end++)
        walk->ends[walk->entry->end_count++] =
            (struct leaf_end){trie->ends[walk->next_end].node, state};
}

static bool step_leaf(const struct string_walk *walk, struct string_position *position,
                      uint8_t byte) {
    const struct automaton *automaton = walk->leaf->automaton;
    if (!automaton || position->escape || byte < 0x20 || byte == '\\')
        return string_content_step(walk->leaf, walk->filter, position, byte, NULL);
    position->state = automaton_step(automaton, position->state, byte);
    if (!position->state || !walk->filter) return position->state != 0;
    return walk->filter->open[position->state / 64] >> position->state % 64 & 1;
}

static void walk_nodes(struct string_walk *walk) {
    const struct trie_node *nodes = walk->cache->trie->nodes;
    struct string_position path[TOKEN_TRIE_BYTES_MAX + 1];
    struct leaf_cache_entry *entry = walk->entry;
    uint32_t first = entry->key.node;
    path[nodes[first].depth] = entry->key.position;
    for (uint32_t i = first + 1; i < first + nodes[first].size;) {
        struct string_position position = path[nodes[i].depth - 1];
        uint8_t byte = nodes[i].byte;
        if (byte == '"' && position.escape == 0) {
            if (string_content_may_end(walk->leaf, position))
                walk->ends[entry->end_count++] = (struct leaf_end){i, position.state};
        } else if (!step_leaf(walk, &position, byte)) {
            note_range(walk, i, false);
        } else if (!walk->aligned || position.escape ||
                   !leaf_cache_is_free(walk->cache, walk->leaf->automaton, position.state)) {
            path[nodes[i].depth] = position;
            if (!walk->clears) leaf_cache_note_inside(walk->cache, entry, i);
            i++;
            continue;
        } else {
            take_free_part(walk, i, position.state);
        }
        i += nodes[i].size;
    }
}

/* True if most nodes of the trie are below first bytes that lead to a free state. A free state
 * accepts every text. */
static bool is_mostly_free(const struct string_walk *walk) {
    const struct trie_node *nodes = walk->cache->trie->nodes;
    const struct automaton *automaton = walk->leaf->automaton;
    uint32_t held = 0;
    for (uint32_t child = 1; child < nodes[0].size; child += nodes[child].size) {
        uint32_t state =
            automaton_step(automaton, walk->entry->key.position.state, nodes[child].byte);
        if (state && leaf_cache_is_free(walk->cache, automaton, state)) held += nodes[child].size;
    }
    return held > nodes[0].size / 2;
}

static void walk_string(struct leaf_cache *cache, const struct text_leaf *leaf,
                        struct leaf_cache_entry *entry, struct leaf_end *ends) {
    const uint64_t no_bits = 0;
    struct key_filter filter = {
        .reaches = &no_bits, .allowed = &no_bits, .open = entry->key.open, .word_count = 0};
    struct string_walk walk = {.cache = cache, .leaf = leaf, .entry = entry, .ends = ends};
    walk.filter = entry->key.open ? &filter : NULL;
    walk.aligned = leaf->automaton && entry->key.node == 0 && entry->key.position.escape == 0 &&
                   leaf_cache_is_between(leaf->automaton, entry->key.position.state);
    walk.clears = walk.aligned && is_mostly_free(&walk);
    if (walk.clears) {
        memcpy(cache->found, cache->trie->inside, cache->trie->word_count * sizeof(uint64_t));
        entry->inside_count = cache->trie->token_count; /* forces storage as a mask */
    }
    walk_nodes(&walk);
}

/* ---- memory ---- */

static void *leaf_cache_take_words(struct leaf_cache *cache, size_t bytes) {
    void *taken = cache->words + cache->word_used;
    cache->word_used += (uint32_t)divide_up(bytes, sizeof(uint64_t));
    return taken;
}

static void keep_inside(struct leaf_cache *cache, struct leaf_cache_entry *entry) {
    size_t mask_bytes = cache->trie->word_count * sizeof(uint64_t);
    entry->inside_mask = NULL;
    entry->inside = NULL;
    if (entry->inside_count * sizeof(uint32_t) >= mask_bytes) {
        uint64_t *mask = leaf_cache_take_words(cache, mask_bytes);
        memcpy(mask, cache->found, mask_bytes);
        entry->inside_mask = mask;
        return;
    }
    uint32_t *list = leaf_cache_take_words(cache, entry->inside_count * sizeof(uint32_t)),
             count = 0;
    entry->inside = list;
    for (uint32_t w = 0; count < entry->inside_count; w++)
        for (uint64_t bits = cache->found[w]; bits; bits &= bits - 1)
            list[count++] = w * 64 + (uint32_t)__builtin_ctzll(bits);
}

static uint64_t leaf_cache_hash_of(const struct leaf_key *key) {
    uint64_t hash = hash_word(0, (uint64_t)key->node << 32 | key->leaf);
    hash = hash_word(hash, (uint64_t)key->position.state << 32 | key->position.escape);
    return hash + (key->open != NULL) + 2 * (uint64_t)key->is_rule;
}

static bool same_key(const struct leaf_key *a, const struct leaf_key *b) {
    return a->node == b->node && a->leaf == b->leaf && a->position.state == b->position.state &&
           a->position.escape == b->position.escape && a->is_number == b->is_number &&
           a->is_rule == b->is_rule && a->open == b->open;
}

static struct leaf_cache_entry *forget_last(struct leaf_cache *cache, uint32_t slot) {
    cache->entry_count--;
    cache->slots[slot] = 0;
    return NULL;
}

struct leaf_cache_entry *leaf_cache_find(struct leaf_cache *cache, const struct grammar *grammar,
                                         const struct leaf_key *key) {
    uint32_t slot = (uint32_t)leaf_cache_hash_of(key) % (2 * ENTRIES_MAX);
    for (; cache->slots[slot]; slot = (slot + 1) % (2 * ENTRIES_MAX))
        if (same_key(&cache->entries[cache->slots[slot] - 1].key, key))
            return &cache->entries[cache->slots[slot] - 1];
    uint32_t ends_max = key->is_rule ? RULE_ENDS_MAX : cache->trie->leaf_end_max;
    size_t words_max = ends_max + cache->trie->word_count + 2;
    if (cache->entry_count == ENTRIES_MAX || words_max > WORDS_MAX - cache->word_used) return NULL;
    struct leaf_cache_entry *entry = &cache->entries[cache->entry_count++];
    cache->slots[slot] = cache->entry_count;
    *entry = (struct leaf_cache_entry){.key = *key};
    memset(cache->found, 0, cache->trie->word_count * sizeof *cache->found);
    struct leaf_end *ends = (struct leaf_end *)(cache->words + cache->word_used);
    if (key->is_rule) {
        if (!leaf_cache_rule(cache, grammar, entry, ends, ends_max))
            return forget_last(cache, slot);
    } else if (key->is_number) {
        walk_number(cache, grammar->leaves[key->leaf].automaton, entry, ends);
    } else {
        walk_string(cache, &grammar->leaves[key->leaf], entry, ends);
    }
    entry->ends = leaf_cache_take_words(cache, entry->end_count * sizeof *ends);
    keep_inside(cache, entry);
    return entry;
}

void leaf_cache_mark(struct leaf_cache *cache, const struct leaf_cache_entry *entry,
                     uint64_t serial, uint64_t *mask) {
    struct leaf_cache_entry *own = &cache->entries[entry - cache->entries];
    if (own->serial == serial) return;
    own->serial = serial;
    if (entry->inside_mask)
        for (uint32_t w = 0; w < cache->trie->word_count; w++)
            mask[w] |= entry->inside_mask[w];
    for (uint32_t i = 0; entry->inside && i < entry->inside_count; i++)
        mask[entry->inside[i] / 64] |= UINT64_C(1) << entry->inside[i] % 64;
}
