/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/matcher/leaf_cache.h"

#include "base/hash.h"
#include "serving/grammar/automata/automaton.h"
#include "serving/grammar/matcher/grammar.h"

#define PARTS_MAX 4096 /* half of the slots */
#define KNOWN_MAX 256
#define WORDS_MAX (256u << 10)
#define RULE_ENDS_MAX (32u << 10) /* of one part */

struct leaf_cache {
    const struct token_trie *trie;
    struct leaf_cache_entry *parts; /* [PARTS_MAX] */
    uint32_t part_count, word_used;
    uint32_t slots[2 * PARTS_MAX]; /* a part's number plus 1; 0: none */
    uint64_t *words;               /* [WORDS_MAX] what parts point to */
    uint64_t *found;               /* [word_count] a mask, while a part is walked */
    const uint64_t *added;         /* the last mask of free strings, and where it was added */
    uint64_t added_serial;
    struct {
        const struct automaton *automaton;
        uint32_t state;
        bool is_free;
    } known[KNOWN_MAX]; /* states that were asked about */
};

struct leaf_cache *leaf_cache_create(struct arena *arena, const struct token_trie *trie) {
    struct leaf_cache *walks = arena_take_zeroed(arena, sizeof *walks);
    if (!walks) return NULL;
    walks->trie = trie;
    walks->parts = arena_take(arena, PARTS_MAX * sizeof *walks->parts);
    walks->words = arena_take(arena, WORDS_MAX * sizeof *walks->words);
    walks->found = arena_take(arena, (trie->word_count + 1) * sizeof *walks->found);
    return walks->parts && walks->words && walks->found ? walks : NULL;
}

void leaf_cache_trim(struct leaf_cache *walks) {
    if (walks->part_count < PARTS_MAX / 2 && walks->word_used < WORDS_MAX / 2) return;
    walks->part_count = 0;
    walks->word_used = 0;
    memset(walks->slots, 0, sizeof walks->slots);
}

bool leaf_cache_is_new(struct leaf_cache *walks, const uint64_t *inside, uint64_t serial) {
    bool is_new = walks->added != inside || walks->added_serial != serial;
    walks->added = inside;
    walks->added_serial = serial;
    return is_new;
}

/* ---- walking ---- */

static void leaf_cache_note_inside(struct leaf_cache *walks, struct leaf_cache_entry *part,
                                   uint32_t node) {
    const struct token_trie *trie = walks->trie;
    for (uint32_t t = trie->nodes[node].token; t != TOKEN_NONE; t = trie->same_bytes[t]) {
        walks->found[t / 64] |= UINT64_C(1) << t % 64;
        part->inside_count++;
    }
}

static void walk_number(struct leaf_cache *walks, const struct automaton *automaton,
                        struct leaf_cache_entry *part, struct leaf_end *ends) {
    const struct trie_node *nodes = walks->trie->nodes;
    uint32_t path[TOKEN_TRIE_BYTES_MAX + 1], first = part->key.node;
    path[nodes[first].depth] = part->key.place.state;
    part->ends_here =
        automaton->labels[part->key.place.state] && token_trie_leaves_number(walks->trie, first);
    for (uint32_t i = first + 1; i < first + nodes[first].size;) {
        uint32_t state = automaton_step(automaton, path[nodes[i].depth - 1], nodes[i].byte);
        if (!state) {
            i += nodes[i].size;
            continue;
        }
        path[nodes[i].depth] = state;
        leaf_cache_note_inside(walks, part, i);
        if (automaton->labels[state] && token_trie_leaves_number(walks->trie, i))
            ends[part->end_count++] = (struct leaf_end){i, state};
        i++;
    }
}

/* False: there are more than `ends_max` places where the rule is left. */
static bool leaf_cache_rule(struct leaf_cache *walks, const struct grammar *grammar,
                            struct leaf_cache_entry *part, struct leaf_end *ends,
                            uint32_t ends_max) {
    const struct trie_node *nodes = walks->trie->nodes;
    const struct grammar_rule *rule = &grammar->rules[part->key.leaf];
    uint32_t path[TOKEN_TRIE_BYTES_MAX + 1], first = part->key.node;
    path[nodes[first].depth] = part->key.place.state;
    for (uint32_t i = first + 1; i < first + nodes[first].size;) {
        uint32_t before = path[nodes[i].depth - 1];
        uint32_t state = automaton_step(rule->automaton, before, nodes[i].byte);
        if (rule_step_leaves(grammar, rule, before, nodes[i].byte)) {
            if (part->end_count == ends_max) return false;
            ends[part->end_count++] = (struct leaf_end){i, before};
        }
        if (!state) {
            i += nodes[i].size;
            continue;
        }
        path[nodes[i].depth] = state;
        leaf_cache_note_inside(walks, part, i);
        i++;
    }
    return true;
}

/* The state of a walk through a string's automaton. */
struct string_walk {
    struct leaf_cache *walks;
    const struct text_leaf *leaf;
    struct leaf_cache_entry *part;
    struct leaf_end *ends;
    const struct key_filter *filter; /* NULL: every state but the dead one is looked at */
    bool aligned;                    /* with a walk through all strings, which the trie knows */
    bool clears;       /* from all tokens that stay in some string; else sets, from none */
    uint32_t next_end; /* of the trie's */
};

static bool leaf_cache_is_free(struct leaf_cache *walks, const struct automaton *automaton,
                               uint32_t state) {
    if (automaton_step(automaton, state, 'a') != state ||
        automaton_step(automaton, state, '"') != state)
        return false;
    uint32_t at = (state ^ (uint32_t)((uintptr_t)automaton >> 4)) % KNOWN_MAX;
    if (walks->known[at].automaton != automaton || walks->known[at].state != state) {
        walks->known[at].automaton = automaton;
        walks->known[at].state = state;
        walks->known[at].is_free = automaton_takes_all(automaton, state);
    }
    return walks->known[at].is_free;
}

/* Between two characters no byte of a character's inside may come. */
static bool leaf_cache_is_between(const struct automaton *automaton, uint32_t state) {
    for (uint32_t byte = 0x80; byte <= 0xBF; byte++)
        if (automaton_step(automaton, state, (uint8_t)byte)) return false;
    return true;
}

static void note_range(struct string_walk *walk, uint32_t node, bool stays) {
    const struct token_trie *trie = walk->walks->trie;
    uint64_t *found = walk->walks->found;
    uint32_t end = trie->inside_before[node + trie->nodes[node].size];
    if (!walk->aligned || stays != !walk->clears) return;
    for (uint32_t i = trie->inside_before[node]; i < end; i++) {
        uint32_t token = trie->inside_tokens[i];
        uint64_t bit = UINT64_C(1) << token % 64;
        found[token / 64] = stays ? found[token / 64] | bit : found[token / 64] & ~bit;
        walk->part->inside_count++;
    }
}

static void take_free_part(struct string_walk *walk, uint32_t node, uint32_t state) {
    const struct token_trie *trie = walk->walks->trie;
    note_range(walk, node, true);
    while (walk->next_end < trie->end_count && trie->ends[walk->next_end].node < node)
        walk->next_end++;
    for (; walk->next_end < trie->end_count &&
           trie->ends[walk->next_end].node < node + trie->nodes[node].size;
         walk->next_end++)
        walk->ends[walk->part->end_count++] =
            (struct leaf_end){trie->ends[walk->next_end].node, state};
}

static bool step_leaf(const struct string_walk *walk, struct string_position *place, uint8_t byte) {
    const struct automaton *automaton = walk->leaf->automaton;
    if (!automaton || place->escape || byte < 0x20 || byte == '\\')
        return string_content_step(walk->leaf, walk->filter, place, byte, NULL);
    place->state = automaton_step(automaton, place->state, byte);
    if (!place->state || !walk->filter) return place->state != 0;
    return walk->filter->open[place->state / 64] >> place->state % 64 & 1;
}

static void walk_nodes(struct string_walk *walk) {
    const struct trie_node *nodes = walk->walks->trie->nodes;
    struct string_position path[TOKEN_TRIE_BYTES_MAX + 1];
    struct leaf_cache_entry *part = walk->part;
    uint32_t first = part->key.node;
    path[nodes[first].depth] = part->key.place;
    for (uint32_t i = first + 1; i < first + nodes[first].size;) {
        struct string_position place = path[nodes[i].depth - 1];
        uint8_t byte = nodes[i].byte;
        if (byte == '"' && place.escape == 0) {
            if (string_content_may_end(walk->leaf, place))
                walk->ends[part->end_count++] = (struct leaf_end){i, place.state};
        } else if (!step_leaf(walk, &place, byte)) {
            note_range(walk, i, false);
        } else if (!walk->aligned || place.escape ||
                   !leaf_cache_is_free(walk->walks, walk->leaf->automaton, place.state)) {
            path[nodes[i].depth] = place;
            if (!walk->clears) leaf_cache_note_inside(walk->walks, part, i);
            i++;
            continue;
        } else {
            take_free_part(walk, i, place.state);
        }
        i += nodes[i].size;
    }
}

/* Whether most nodes of the trie are below bytes that lead to a free state. */
static bool is_mostly_free(const struct string_walk *walk) {
    const struct trie_node *nodes = walk->walks->trie->nodes;
    const struct automaton *automaton = walk->leaf->automaton;
    uint32_t held = 0;
    for (uint32_t child = 1; child < nodes[0].size; child += nodes[child].size) {
        uint32_t state = automaton_step(automaton, walk->part->key.place.state, nodes[child].byte);
        if (state && leaf_cache_is_free(walk->walks, automaton, state)) held += nodes[child].size;
    }
    return held > nodes[0].size / 2;
}

static void walk_string(struct leaf_cache *walks, const struct text_leaf *leaf,
                        struct leaf_cache_entry *part, struct leaf_end *ends) {
    const uint64_t no_bits = 0;
    struct key_filter filter = {
        .reaches = &no_bits, .allowed = &no_bits, .open = part->key.open, .word_count = 0};
    struct string_walk walk = {.walks = walks, .leaf = leaf, .part = part, .ends = ends};
    walk.filter = part->key.open ? &filter : NULL;
    walk.aligned = leaf->automaton && part->key.node == 0 && part->key.place.escape == 0 &&
                   leaf_cache_is_between(leaf->automaton, part->key.place.state);
    walk.clears = walk.aligned && is_mostly_free(&walk);
    if (walk.clears) {
        memcpy(walks->found, walks->trie->inside, walks->trie->word_count * sizeof(uint64_t));
        part->inside_count = walks->trie->token_count; /* a mask holds it best */
    }
    walk_nodes(&walk);
}

/* ---- memory ---- */

static void *leaf_cache_take_words(struct leaf_cache *walks, size_t bytes) {
    void *taken = walks->words + walks->word_used;
    walks->word_used += (uint32_t)divide_up(bytes, sizeof(uint64_t));
    return taken;
}

static void keep_inside(struct leaf_cache *walks, struct leaf_cache_entry *part) {
    size_t mask_bytes = walks->trie->word_count * sizeof(uint64_t);
    part->inside_mask = NULL;
    part->inside = NULL;
    if (part->inside_count * sizeof(uint32_t) >= mask_bytes) {
        uint64_t *mask = leaf_cache_take_words(walks, mask_bytes);
        memcpy(mask, walks->found, mask_bytes);
        part->inside_mask = mask;
        return;
    }
    uint32_t *list = leaf_cache_take_words(walks, part->inside_count * sizeof(uint32_t)), count = 0;
    part->inside = list;
    for (uint32_t w = 0; count < part->inside_count; w++)
        for (uint64_t bits = walks->found[w]; bits; bits &= bits - 1)
            list[count++] = w * 64 + (uint32_t)__builtin_ctzll(bits);
}

static uint64_t leaf_cache_hash_of(const struct leaf_key *key) {
    uint64_t hash = hash_word(0, (uint64_t)key->node << 32 | key->leaf);
    hash = hash_word(hash, (uint64_t)key->place.state << 32 | key->place.escape);
    return hash + (key->open != NULL) + 2 * (uint64_t)key->is_rule;
}

static bool same_key(const struct leaf_key *a, const struct leaf_key *b) {
    return a->node == b->node && a->leaf == b->leaf && a->place.state == b->place.state &&
           a->place.escape == b->place.escape && a->is_number == b->is_number &&
           a->is_rule == b->is_rule && a->open == b->open;
}

static struct leaf_cache_entry *forget_last(struct leaf_cache *walks, uint32_t slot) {
    walks->part_count--;
    walks->slots[slot] = 0;
    return NULL;
}

struct leaf_cache_entry *leaf_cache_find(struct leaf_cache *walks, const struct grammar *grammar,
                                         const struct leaf_key *key) {
    uint32_t slot = (uint32_t)leaf_cache_hash_of(key) % (2 * PARTS_MAX);
    for (; walks->slots[slot]; slot = (slot + 1) % (2 * PARTS_MAX))
        if (same_key(&walks->parts[walks->slots[slot] - 1].key, key))
            return &walks->parts[walks->slots[slot] - 1];
    uint32_t ends_max = key->is_rule ? RULE_ENDS_MAX : walks->trie->leaf_end_max;
    size_t words_max = ends_max + walks->trie->word_count + 2;
    if (walks->part_count == PARTS_MAX || words_max > WORDS_MAX - walks->word_used) return NULL;
    struct leaf_cache_entry *part = &walks->parts[walks->part_count++];
    walks->slots[slot] = walks->part_count;
    *part = (struct leaf_cache_entry){.key = *key};
    memset(walks->found, 0, walks->trie->word_count * sizeof *walks->found);
    struct leaf_end *ends = (struct leaf_end *)(walks->words + walks->word_used);
    if (key->is_rule) {
        if (!leaf_cache_rule(walks, grammar, part, ends, ends_max)) return forget_last(walks, slot);
    } else if (key->is_number) {
        walk_number(walks, grammar->leaves[key->leaf].automaton, part, ends);
    } else {
        walk_string(walks, &grammar->leaves[key->leaf], part, ends);
    }
    part->ends = leaf_cache_take_words(walks, part->end_count * sizeof *ends);
    keep_inside(walks, part);
    return part;
}

void leaf_cache_mark(struct leaf_cache *walks, const struct leaf_cache_entry *part, uint64_t serial,
                     uint64_t *mask) {
    struct leaf_cache_entry *own = &walks->parts[part - walks->parts];
    if (own->serial == serial) return;
    own->serial = serial;
    if (part->inside_mask)
        for (uint32_t w = 0; w < walks->trie->word_count; w++)
            mask[w] |= part->inside_mask[w];
    for (uint32_t i = 0; part->inside && i < part->inside_count; i++)
        mask[part->inside[i] / 64] |= UINT64_C(1) << part->inside[i] % 64;
}
