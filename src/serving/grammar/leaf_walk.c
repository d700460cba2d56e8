/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/leaf_walk.h"

#define PARTS_MAX 4096 /* half of the slots */
#define WORDS_MAX (256u << 10)

struct leaf_walks {
    const struct token_trie *trie;
    struct leaf_part *parts; /* [PARTS_MAX] */
    uint32_t part_count, word_used;
    uint32_t slots[2 * PARTS_MAX]; /* a part's number plus 1; 0: none */
    uint64_t *words;               /* [WORDS_MAX] what parts point to */
    uint64_t *found;               /* [word_count] a mask, while a part is walked */
    uint32_t end_max;              /* no part has more ends */
    const uint64_t *added;         /* the last mask of free strings, and where it was added */
    uint64_t added_serial;
};

/* Bytes that may follow a number. */
static bool follows_number(uint8_t byte) {
    return byte == ',' || byte == ']' || byte == '}' || byte == ' ' || byte == '\n' ||
           byte == '\r' || byte == '\t';
}

static bool may_be_left(const struct token_trie *trie, uint32_t node) {
    uint32_t end = node + trie->nodes[node].size;
    for (uint32_t child = node + 1; child < end; child += trie->nodes[child].size)
        if (follows_number(trie->nodes[child].byte)) return true;
    return false;
}

struct leaf_walks *leaf_walks_create(struct arena *arena, const struct token_trie *trie) {
    struct leaf_walks *walks = arena_take_zeroed(arena, sizeof *walks);
    if (!walks) return NULL;
    walks->trie = trie;
    walks->parts = arena_take(arena, PARTS_MAX * sizeof *walks->parts);
    walks->words = arena_take(arena, WORDS_MAX * sizeof *walks->words);
    walks->found = arena_take(arena, (trie->word_count + 1) * sizeof *walks->found);
    for (uint32_t i = 1; i < trie->node_count; i++)
        walks->end_max += trie->nodes[i].byte == '"' ||
                          (trie->nodes[i].byte <= '9' && may_be_left(trie, i));
    return walks->parts && walks->words && walks->found ? walks : NULL;
}

void leaf_walks_tidy(struct leaf_walks *walks) {
    if (walks->part_count < PARTS_MAX / 2 && walks->word_used < WORDS_MAX / 2) return;
    walks->part_count = 0;
    walks->word_used = 0;
    memset(walks->slots, 0, sizeof walks->slots);
}

bool leaf_walks_is_new(struct leaf_walks *walks, const uint64_t *inside, uint64_t serial) {
    bool is_new = walks->added != inside || walks->added_serial != serial;
    walks->added = inside;
    walks->added_serial = serial;
    return is_new;
}

/* ---- walking ---- */

static void note_inside(struct leaf_walks *walks, struct leaf_part *part, uint32_t node) {
    const struct token_trie *trie = walks->trie;
    for (uint32_t t = trie->nodes[node].token; t != TOKEN_NONE; t = trie->twin[t]) {
        walks->found[t / 64] |= UINT64_C(1) << t % 64;
        part->inside_count++;
    }
}

static void walk_number(struct leaf_walks *walks, const struct automaton *automaton,
                        struct leaf_part *part, struct leaf_end *ends) {
    const struct trie_node *nodes = walks->trie->nodes;
    uint32_t path[TOKEN_TRIE_BYTES_MAX + 1], first = part->key.node;
    path[nodes[first].depth] = part->key.place.state;
    part->ends_here = automaton->labels[part->key.place.state] && may_be_left(walks->trie, first);
    for (uint32_t i = first + 1; i < first + nodes[first].size;) {
        uint32_t state = automaton_step(automaton, path[nodes[i].depth - 1], nodes[i].byte);
        if (!state) {
            i += nodes[i].size;
            continue;
        }
        path[nodes[i].depth] = state;
        note_inside(walks, part, i);
        if (automaton->labels[state] && may_be_left(walks->trie, i))
            ends[part->end_count++] = (struct leaf_end){i, state};
        i++;
    }
}

static void walk_string(struct leaf_walks *walks, const struct text_leaf *leaf,
                        struct leaf_part *part, struct leaf_end *ends) {
    const struct trie_node *nodes = walks->trie->nodes;
    const uint64_t no_bits = 0;
    struct key_filter filter = {
        .reaches = &no_bits, .allowed = &no_bits, .open = part->key.open, .word_count = 0};
    const struct key_filter *filtered = part->key.open ? &filter : NULL;
    struct content_place path[TOKEN_TRIE_BYTES_MAX + 1];
    uint32_t first = part->key.node;
    path[nodes[first].depth] = part->key.place;
    for (uint32_t i = first + 1; i < first + nodes[first].size;) {
        struct content_place place = path[nodes[i].depth - 1];
        uint8_t byte = nodes[i].byte;
        if (byte == '"' && place.escape == 0) {
            if (content_may_end(leaf, place))
                ends[part->end_count++] = (struct leaf_end){i, place.state};
            i += nodes[i].size;
        } else if (content_step(leaf, filtered, &place, byte, NULL)) {
            path[nodes[i].depth] = place;
            note_inside(walks, part, i);
            i++;
        } else {
            i += nodes[i].size;
        }
    }
}

/* ---- memory ---- */

static void *take_words(struct leaf_walks *walks, size_t bytes) {
    void *taken = walks->words + walks->word_used;
    walks->word_used += (uint32_t)divide_up(bytes, sizeof(uint64_t));
    return taken;
}

static void keep_inside(struct leaf_walks *walks, struct leaf_part *part) {
    size_t mask_bytes = walks->trie->word_count * sizeof(uint64_t);
    part->inside_mask = NULL;
    part->inside = NULL;
    if (part->inside_count * sizeof(uint32_t) >= mask_bytes) {
        uint64_t *mask = take_words(walks, mask_bytes);
        memcpy(mask, walks->found, mask_bytes);
        part->inside_mask = mask;
        return;
    }
    uint32_t *list = take_words(walks, part->inside_count * sizeof(uint32_t)), count = 0;
    part->inside = list;
    for (uint32_t w = 0; count < part->inside_count; w++)
        for (uint64_t bits = walks->found[w]; bits; bits &= bits - 1)
            list[count++] = w * 64 + (uint32_t)__builtin_ctzll(bits);
}

static uint64_t hash_of(const struct leaf_key *key) {
    uint64_t hash = ((uint64_t)key->node << 32 | key->leaf) * UINT64_C(0x9E3779B97F4A7C15);
    hash = (hash ^ hash >> 29 ^ ((uint64_t)key->place.state << 32 | key->place.escape)) *
           UINT64_C(0xBF58476D1CE4E5B9);
    return (hash ^ hash >> 32) + (key->open != NULL);
}

static bool same_key(const struct leaf_key *a, const struct leaf_key *b) {
    return a->node == b->node && a->leaf == b->leaf && a->place.state == b->place.state &&
           a->place.escape == b->place.escape && a->is_number == b->is_number && a->open == b->open;
}

struct leaf_part *leaf_walks_part(struct leaf_walks *walks, const struct text_leaf *leaf,
                                  const struct leaf_key *key) {
    uint32_t slot = (uint32_t)hash_of(key) % (2 * PARTS_MAX);
    for (; walks->slots[slot]; slot = (slot + 1) % (2 * PARTS_MAX))
        if (same_key(&walks->parts[walks->slots[slot] - 1].key, key))
            return &walks->parts[walks->slots[slot] - 1];
    size_t words_max = walks->end_max + walks->trie->word_count + 2;
    if (walks->part_count == PARTS_MAX || words_max > WORDS_MAX - walks->word_used) return NULL;
    struct leaf_part *part = &walks->parts[walks->part_count++];
    walks->slots[slot] = walks->part_count;
    *part = (struct leaf_part){.key = *key};
    memset(walks->found, 0, walks->trie->word_count * sizeof *walks->found);
    struct leaf_end *ends = (struct leaf_end *)(walks->words + walks->word_used);
    if (key->is_number)
        walk_number(walks, leaf->automaton, part, ends);
    else
        walk_string(walks, leaf, part, ends);
    part->ends = take_words(walks, part->end_count * sizeof *ends);
    keep_inside(walks, part);
    return part;
}

void leaf_walks_mark(struct leaf_walks *walks, const struct leaf_part *part, uint64_t serial,
                     uint64_t *mask) {
    struct leaf_part *own = &walks->parts[part - walks->parts];
    if (own->serial == serial) return;
    own->serial = serial;
    if (part->inside_mask)
        for (uint32_t w = 0; w < walks->trie->word_count; w++)
            mask[w] |= part->inside_mask[w];
    for (uint32_t i = 0; part->inside && i < part->inside_count; i++)
        mask[part->inside[i] / 64] |= UINT64_C(1) << part->inside[i] % 64;
}
