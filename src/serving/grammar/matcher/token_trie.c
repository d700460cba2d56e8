/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/grammar/matcher/token_trie.h"

#include "base/check.h"
#include "serving/grammar/matcher/string_content.h"

static int compare(struct bytes a, struct bytes b) {
    size_t shared = a.count < b.count ? a.count : b.count;
    int order = memcmp(a.data, b.data, shared);
    if (order) return order;
    return (a.count > b.count) - (a.count < b.count);
}

/* Sorts by merging. Returns the array with the result, which is one of the two. */
static uint32_t *token_trie_sort(const struct bytes *tokens, uint32_t *ids, uint32_t *other,
                                 uint32_t count) {
    for (uint32_t run = 1; run < count; run *= 2) {
        for (uint32_t start = 0; start < count; start += 2 * run) {
            uint32_t middle = start + run < count ? start + run : count;
            uint32_t end = middle + run < count ? middle + run : count;
            uint32_t a = start, b = middle;
            for (uint32_t i = start; i < end; i++) {
                bool left =
                    b == end || (a < middle && compare(tokens[ids[a]], tokens[ids[b]]) <= 0);
                other[i] = left ? ids[a++] : ids[b++];
            }
        }
        uint32_t *swap = ids;
        ids = other;
        other = swap;
    }
    return ids;
}

static size_t shared_bytes(struct bytes a, struct bytes b) {
    size_t count = 0;
    while (count < a.count && count < b.count && a.data[count] == b.data[count])
        count++;
    return count;
}

static void close_below(struct trie_node *nodes, const uint32_t *path, size_t depth, size_t from,
                        uint32_t node_count) {
    for (size_t i = from + 1; i <= depth; i++)
        nodes[path[i]].size = node_count - path[i];
}

/* Fills in the nodes, or only counts them if `nodes` is NULL. */
static uint32_t token_trie_lay_out(const struct bytes *tokens, const uint32_t *ids, uint32_t count,
                                   struct trie_node *nodes, uint32_t *same_bytes) {
    uint32_t path[TOKEN_TRIE_BYTES_MAX + 1] = {0}, node_count = 1;
    struct bytes before = {"", 0};
    if (nodes) nodes[0] = (struct trie_node){.token = TOKEN_NONE};
    for (uint32_t i = 0; i < count; i++) {
        struct bytes token = tokens[ids[i]];
        size_t shared = shared_bytes(before, token);
        if (nodes) close_below(nodes, path, before.count, shared, node_count);
        for (size_t depth = shared + 1; depth <= token.count; depth++) {
            path[depth] = node_count;
            if (nodes)
                nodes[node_count] = (struct trie_node){.token = TOKEN_NONE,
                                                       .depth = (uint16_t)depth,
                                                       .byte = (uint8_t)token.data[depth - 1]};
            node_count++;
        }
        if (nodes) {
            same_bytes[ids[i]] = nodes[path[token.count]].token;
            nodes[path[token.count]].token = ids[i];
        }
        before = token;
    }
    if (nodes) {
        close_below(nodes, path, before.count, 0, node_count);
        nodes[0].size = node_count;
    }
    return node_count;
}

/* ---- ends of leaves ---- */

/* True if a byte may follow a number in JSON. */
static bool follows_number(uint8_t byte) {
    return byte == ',' || byte == ']' || byte == '}' || byte == ' ' || byte == '\n' ||
           byte == '\r' || byte == '\t';
}

bool token_trie_leaves_number(const struct token_trie *trie, uint32_t node) {
    uint32_t end = node + trie->nodes[node].size;
    for (uint32_t child = node + 1; child < end; child += trie->nodes[child].size)
        if (follows_number(trie->nodes[child].byte)) return true;
    return false;
}

/* ---- strings without a pattern ---- */

struct content_tables {
    uint8_t *needs;
    uint64_t *within[TOKEN_TRIE_WITHIN + 1];
    uint64_t *inside;
    struct trie_end *ends; /* NULL: only count them */
    uint32_t *long_tokens, *inside_tokens, *inside_before;
    uint32_t end_count, long_count, inside_count;
};

static void token_trie_set_bit(uint64_t *mask, uint32_t token) {
    mask[token / 64] |= UINT64_C(1) << token % 64;
}

static void token_trie_note_inside(const struct token_trie *trie, uint32_t node,
                                   struct string_position position, struct content_tables *tables) {
    uint32_t needs = position.state + (position.escape != 0);
    for (uint32_t t = trie->nodes[node].token; t != TOKEN_NONE; t = trie->same_bytes[t]) {
        token_trie_set_bit(tables->inside, t);
        tables->needs[t] = (uint8_t)needs;
        tables->inside_tokens[tables->inside_count++] = t;
        if (needs > TOKEN_TRIE_WITHIN) tables->long_tokens[tables->long_count++] = t;
        for (uint32_t i = needs; i <= TOKEN_TRIE_WITHIN; i++)
            token_trie_set_bit(tables->within[i], t);
    }
}

static void walk_content(const struct token_trie *trie, struct content_tables *tables) {
    static const struct text_leaf any = {NULL, 0, SHAPE_UNBOUNDED - 1};
    struct string_position path[TOKEN_TRIE_BYTES_MAX + 1] = {{0}};
    tables->end_count = 0;
    for (uint32_t i = 1; i < trie->node_count;) {
        const struct trie_node *node = &trie->nodes[i];
        uint32_t here = i;
        struct string_position position = path[node->depth - 1];
        if (node->byte == '"' && position.escape == 0) {
            if (tables->ends)
                tables->ends[tables->end_count] = (struct trie_end){i, position.state};
            tables->end_count++;
            i += node->size;
        } else if (string_content_step(&any, NULL, &position, node->byte, NULL)) {
            path[node->depth] = position;
            if (tables->ends) token_trie_note_inside(trie, i, position, tables);
            i++;
        } else {
            i += node->size;
        }
        for (uint32_t j = here + 1; tables->ends && j <= i; j++)
            tables->inside_before[j] = tables->inside_count;
    }
}

static enum status describe_content(struct arena *arena, struct token_trie *trie) {
    struct content_tables tables = {0};
    size_t mask_bytes = trie->word_count * sizeof(uint64_t);
    walk_content(trie, &tables);
    tables.ends = arena_take(arena, (tables.end_count + 1) * sizeof *tables.ends);
    tables.needs = arena_take(arena, trie->token_count + 1);
    tables.inside = arena_take_zeroed(arena, mask_bytes);
    tables.long_tokens = arena_take(arena, (trie->token_count + 1) * sizeof(uint32_t));
    tables.inside_tokens = arena_take(arena, (trie->token_count + 1) * sizeof(uint32_t));
    tables.inside_before = arena_take_zeroed(arena, (trie->node_count + 1) * sizeof(uint32_t));
    if (!tables.inside_tokens || !tables.inside_before || !tables.long_tokens || !tables.ends ||
        !tables.needs || !tables.inside)
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i <= TOKEN_TRIE_WITHIN; i++) {
        tables.within[i] = arena_take_zeroed(arena, mask_bytes);
        if (!tables.within[i]) return STATUS_NO_MEMORY;
        trie->within[i] = tables.within[i];
    }
    memset(tables.needs, UINT8_MAX, trie->token_count + 1);
    walk_content(trie, &tables);
    trie->needs = tables.needs;
    trie->inside = tables.inside;
    trie->ends = tables.ends;
    trie->end_count = tables.end_count;
    trie->inside_tokens = tables.inside_tokens;
    trie->inside_before = tables.inside_before;
    trie->long_tokens = tables.long_tokens;
    trie->long_count = tables.long_count;
    return STATUS_OK;
}

enum status token_trie_build(struct arena *arena, struct arena *scratch, const struct bytes *tokens,
                             uint32_t token_count, const struct token_trie **out) {
    struct token_trie *trie = arena_take_zeroed(arena, sizeof *trie);
    uint32_t *ids = arena_take(scratch, (token_count + 1) * sizeof *ids);
    uint32_t *other = arena_take(scratch, (token_count + 1) * sizeof *other);
    uint32_t *same_bytes = arena_take(arena, (token_count + 1) * sizeof *same_bytes);
    struct bytes *kept = arena_take(arena, (token_count + 1) * sizeof *kept);
    if (!trie || !ids || !other || !same_bytes || !kept) return STATUS_NO_MEMORY;
    uint32_t count = 0;
    for (uint32_t i = 0; i < token_count; i++) {
        bool stands = tokens[i].count > 0 && tokens[i].count <= TOKEN_TRIE_BYTES_MAX;
        kept[i] = stands ? tokens[i] : (struct bytes){"", 0};
        if (stands) ids[count++] = i;
    }
    ids = token_trie_sort(kept, ids, other, count);
    uint32_t node_count = token_trie_lay_out(kept, ids, count, NULL, NULL);
    struct trie_node *nodes = arena_take(arena, node_count * sizeof *nodes);
    if (!nodes) return STATUS_NO_MEMORY;
    check(token_trie_lay_out(kept, ids, count, nodes, same_bytes) == node_count);
    trie->token_count = token_count;
    trie->word_count = (uint32_t)divide_up(token_count, 64);
    trie->node_count = node_count;
    trie->nodes = nodes;
    trie->same_bytes = same_bytes;
    trie->tokens = kept;
    for (uint32_t i = 1; i < node_count; i++)
        trie->leaf_end_max +=
            nodes[i].byte == '"' || (nodes[i].byte <= '9' && token_trie_leaves_number(trie, i));
    enum status status = describe_content(arena, trie);
    if (!status) *out = trie;
    return status;
}

enum status token_trie_of_tokenizer(struct arena *arena, struct arena *scratch,
                                    const struct tokenizer *tokenizer, uint32_t row_count,
                                    const struct token_trie **out) {
    struct bytes *tokens = arena_take(scratch, (row_count + 1) * sizeof *tokens);
    if (!tokens) return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < row_count; i++)
        tokens[i] =
            tokenizer_token_is_special(tokenizer, i) || tokenizer_token_is_added(tokenizer, i)
                ? (struct bytes){"", 0}
                : tokenizer_token_bytes(tokenizer, i);
    return token_trie_build(arena, scratch, tokens, row_count, out);
}
