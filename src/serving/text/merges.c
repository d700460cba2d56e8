/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/text/merges.h"

#include "base/byte_level.h"
#include "base/check.h"
#include "base/hash.h"

#define NO_RANK UINT32_MAX
#define NOWHERE UINT32_MAX

static struct merge_slot *merges_slot_of(const struct merges *merges, uint32_t left,
                                         uint32_t right) {
    for (uint64_t at = hash_word(0, (uint64_t)left << 32 | right);; at++) {
        struct merge_slot *slot = &merges->slots[at & merges->slot_mask];
        if (slot->rank == NO_RANK || (slot->left == left && slot->right == right)) return slot;
    }
}

static uint32_t merges_rank_of(const struct merges *merges, uint32_t left, uint32_t right) {
    return merges_slot_of(merges, left, right)->rank;
}

/* The two sides of merge `entry`, as written. */
static bool sides_of(const struct tree *entry, struct bytes *left, struct bytes *right) {
    if (tree_get_string(entry, left)) {
        const char *space = memchr(left->data, ' ', left->count);
        if (!space) return false;
        *right = (struct bytes){space + 1, (size_t)(left->data + left->count - space) - 1};
        left->count = (size_t)(space - left->data);
        return left->count && right->count && !memchr(right->data, ' ', right->count);
    }
    return entry && tree_count(entry) == 2 && tree_get_string(tree_at(entry, 0), left) &&
           tree_get_string(tree_at(entry, 1), right) && left->count && right->count;
}

static enum status read_merge(const struct tree *entry, uint32_t rank, char *work,
                              const struct vocabulary *vocabulary, const char *name,
                              struct merges *out, struct error *error) {
    struct bytes left = {"", 0}, right = {"", 0};
    size_t left_bytes, right_bytes;
    /* An entry that is not spelled at byte level cannot occur when bytes are merged. */
    if (!sides_of(entry, &left, &right) || !byte_level_decode(left, work, &left_bytes) ||
        !byte_level_decode(right, work + left_bytes, &right_bytes))
        return STATUS_OK;
    uint32_t left_id = vocabulary_find(vocabulary, (struct bytes){work, left_bytes});
    uint32_t right_id = vocabulary_find(vocabulary, (struct bytes){work + left_bytes, right_bytes});
    uint32_t result = vocabulary_find(vocabulary, (struct bytes){work, left_bytes + right_bytes});
    if (left_id == VOCABULARY_NONE || right_id == VOCABULARY_NONE || result == VOCABULARY_NONE)
        return error_set(error, STATUS_INVALID,
                         "%s: model.merges[%u]: '%.*s' + '%.*s': a part, or the whole, is not in "
                         "model.vocab",
                         name, rank, (int)(left.count < 64 ? left.count : 64), left.data,
                         (int)(right.count < 64 ? right.count : 64), right.data);
    out->results[rank] = result;
    *merges_slot_of(out, left_id, right_id) = (struct merge_slot){left_id, right_id, rank};
    return STATUS_OK;
}

/* Validates all merges, and computes the bytes of the longest one. */
static enum status merges_measure(const struct tree *list, const char *name, size_t *longest,
                                  struct error *error) {
    for (size_t i = 0; i < tree_count(list); i++) {
        struct bytes left, right;
        if (!sides_of(tree_at(list, i), &left, &right))
            return error_set(
                error, STATUS_INVALID,
                "%s: model.merges[%zu]: expected two tokens, \"a b\" or [\"a\", \"b\"]", name, i);
        if (left.count + right.count > *longest) *longest = left.count + right.count;
    }
    return STATUS_OK;
}

static enum status find_bytes(const struct vocabulary *vocabulary, const char *name,
                              struct merges *out, struct error *error) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        char text = (char)byte;
        out->byte_ids[byte] = vocabulary_find(vocabulary, (struct bytes){&text, 1});
        if (out->byte_ids[byte] == VOCABULARY_NONE)
            return error_set(
                error, STATUS_UNSUPPORTED,
                "%s: the vocabulary has no token for byte 0x%02X; only complete byte-level "
                "vocabularies are supported",
                name, byte);
    }
    return STATUS_OK;
}

/* Allocates the table for `count` merges with ranks below `ranks`. */
static enum status merges_reserve(struct arena *arena, size_t count, size_t ranks, const char *name,
                                  struct merges *out, struct error *error) {
    uint32_t slot_count = 16;
    while (slot_count < count + count / 2)
        slot_count *= 2;
    out->slots = arena_take(arena, slot_count * sizeof *out->slots);
    out->slot_mask = slot_count - 1;
    out->results = arena_take_zeroed(arena, (ranks + 1) * sizeof *out->results);
    if (!out->slots || !out->results)
        return error_set(error, STATUS_NO_MEMORY, "%s: no memory for %zu merges", name, count);
    memset(out->slots, 0xFF, slot_count * sizeof *out->slots);
    return STATUS_OK;
}

enum status merges_read(struct arena *arena, struct arena *scratch, const struct tree *list,
                        const struct vocabulary *vocabulary, const char *name, struct merges *out,
                        struct error *error) {
    size_t count = tree_count(list), longest = 0;
    if (count > 4 * (size_t)LIMIT_VOCAB)
        return error_set(error, STATUS_TOO_LARGE, "%s: model.merges has %zu entries", name, count);
    enum status status = merges_measure(list, name, &longest, error);
    if (!status) status = find_bytes(vocabulary, name, out, error);
    if (!status) status = merges_reserve(arena, count, count, name, out, error);
    if (status) return status;
    char *work = arena_take(scratch, longest + 1);
    if (!work)
        return error_set(error, STATUS_NO_MEMORY, "%s: no memory for %zu merges", name, count);
    for (size_t i = 0; i < count && !status; i++)
        status = read_merge(tree_at(list, i), (uint32_t)i, work, vocabulary, name, out, error);
    return status;
}

/* Adds the pairs of tokens that together have the bytes of token `id`. */
static size_t derive_pairs(const struct vocabulary *vocabulary, uint32_t id,
                           struct merge_slot *pairs) {
    struct bytes token = vocabulary_bytes(vocabulary, id);
    size_t count = 0;
    for (size_t at = 1; at < token.count; at++) {
        uint32_t left = vocabulary_find(vocabulary, (struct bytes){token.data, at});
        if (left == VOCABULARY_NONE) continue;
        struct bytes rest = {token.data + at, token.count - at};
        uint32_t right = vocabulary_find(vocabulary, rest);
        if (right != VOCABULARY_NONE) pairs[count++] = (struct merge_slot){left, right, id};
    }
    return count;
}

enum status merges_derive(struct arena *arena, struct arena *scratch,
                          const struct vocabulary *vocabulary, uint32_t count, const char *name,
                          struct merges *out, struct error *error) {
    size_t bytes = 0, found = 0;
    for (uint32_t id = 0; id < count; id++)
        bytes += vocabulary_bytes(vocabulary, id).count;
    struct merge_slot *pairs = arena_take(scratch, (bytes + 1) * sizeof *pairs);
    enum status status = find_bytes(vocabulary, name, out, error);
    if (status) return status;
    if (!pairs) return error_set(error, STATUS_NO_MEMORY, "%s: no memory for its merges", name);
    for (uint32_t id = 0; id < count; id++)
        found += derive_pairs(vocabulary, id, pairs + found);
    status = merges_reserve(arena, found, count, name, out, error);
    if (status) return status;
    for (size_t i = 0; i < found; i++)
        *merges_slot_of(out, pairs[i].left, pairs[i].right) = pairs[i];
    for (uint32_t id = 0; id < count; id++)
        out->results[id] = id;
    return STATUS_OK;
}

bool merges_scratch_open(struct merges_scratch *scratch, struct arena *arena, size_t bytes_max) {
    if (bytes_max < MERGES_SHORT_BYTES) bytes_max = MERGES_SHORT_BYTES;
    check(bytes_max < NOWHERE / 2);
    uint32_t *memory = arena_take(arena, 5 * bytes_max * sizeof *memory);
    if (!memory) return false;
    *scratch = (struct merges_scratch){
        .bytes_max = bytes_max,
        .ids = memory,
        .next = memory + bytes_max,
        .previous = memory + 2 * bytes_max,
        .ranks = memory + 3 * bytes_max,
        .winners = memory + 4 * bytes_max,
    };
    return true;
}

static size_t merge_short(const struct merges *merges, struct bytes word, uint32_t *ids) {
    uint32_t ranks[MERGES_SHORT_BYTES];
    size_t count = word.count;
    for (size_t i = 0; i < count; i++)
        ids[i] = merges->byte_ids[(uint8_t)word.data[i]];
    for (size_t i = 0; i + 1 < count; i++)
        ranks[i] = merges_rank_of(merges, ids[i], ids[i + 1]);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++)
            if (ranks[i] < ranks[best]) best = i;
        if (ranks[best] == NO_RANK) break;
        ids[best] = merges->results[ranks[best]];
        count--;
        for (size_t i = best + 1; i < count; i++) {
            ids[i] = ids[i + 1];
            ranks[i - 1] = ranks[i];
        }
        if (best > 0) ranks[best - 1] = merges_rank_of(merges, ids[best - 1], ids[best]);
        if (best + 1 < count) ranks[best] = merges_rank_of(merges, ids[best], ids[best + 1]);
    }
    return count;
}

/* The winner of a node of the tournament. Node 1 is the root, the children of node n are 2n and
 * 2n+1, and node leaf_count + i is position i. Ties go to the smaller position, so the shape of the
 * tree does not matter. */
static uint32_t winner_of(const struct merges_scratch *s, uint32_t node, uint32_t leaf_count) {
    return node >= leaf_count ? node - leaf_count : s->winners[node];
}

static void play(struct merges_scratch *s, uint32_t node, uint32_t leaf_count) {
    uint32_t a = winner_of(s, 2 * node, leaf_count), b = winner_of(s, 2 * node + 1, leaf_count);
    bool a_wins = s->ranks[a] != s->ranks[b] ? s->ranks[a] < s->ranks[b] : a < b;
    s->winners[node] = a_wins ? a : b;
}

static void set_rank(struct merges_scratch *s, uint32_t position, uint32_t rank,
                     uint32_t leaf_count) {
    s->ranks[position] = rank;
    for (uint32_t node = (position + leaf_count) / 2; node > 0; node /= 2)
        play(s, node, leaf_count);
}

static void rank_pair(const struct merges *merges, struct merges_scratch *s, uint32_t position,
                      uint32_t leaf_count) {
    uint32_t right = s->next[position];
    set_rank(s, position,
             right == NOWHERE ? NO_RANK : merges_rank_of(merges, s->ids[position], s->ids[right]),
             leaf_count);
}

static size_t merge_long(const struct merges *merges, struct merges_scratch *s, struct bytes word) {
    uint32_t count = (uint32_t)word.count;
    for (uint32_t i = 0; i < count; i++) {
        s->ids[i] = merges->byte_ids[(uint8_t)word.data[i]];
        s->next[i] = i + 1 < count ? i + 1 : NOWHERE;
        s->previous[i] = i > 0 ? i - 1 : NOWHERE;
    }
    for (uint32_t i = 0; i < count; i++)
        s->ranks[i] = i + 1 < count ? merges_rank_of(merges, s->ids[i], s->ids[i + 1]) : NO_RANK;
    for (uint32_t node = count - 1; node > 0; node--)
        play(s, node, count);
    for (;;) {
        uint32_t best = s->winners[1];
        if (s->ranks[best] == NO_RANK) break;
        uint32_t gone = s->next[best];
        s->ids[best] = merges->results[s->ranks[best]];
        s->next[best] = s->next[gone];
        if (s->next[best] != NOWHERE) s->previous[s->next[best]] = best;
        set_rank(s, gone, NO_RANK, count);
        rank_pair(merges, s, best, count);
        if (s->previous[best] != NOWHERE) rank_pair(merges, s, s->previous[best], count);
    }
    size_t kept = 0;
    for (uint32_t i = 0; i != NOWHERE; i = s->next[i])
        s->ids[kept++] = s->ids[i];
    return kept;
}

size_t merges_apply(const struct merges *merges, struct merges_scratch *scratch,
                    struct bytes word) {
    check(word.count > 0 && word.count <= scratch->bytes_max);
    return word.count <= MERGES_SHORT_BYTES ? merge_short(merges, word, scratch->ids)
                                            : merge_long(merges, scratch, word);
}
