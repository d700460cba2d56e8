/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/text/added_tokens.h"

#include "base/check.h"

#define NO_ID UINT32_MAX

/* The child of a node that a byte leads to, or 0. */
static uint32_t find_child(const struct added_trie *trie, uint32_t node, uint8_t byte) {
    uint32_t child = trie->nodes[node].child;
    while (child && trie->nodes[child].byte != byte)
        child = trie->nodes[child].sibling;
    return child;
}

static void added_tokens_insert(struct added_trie *trie, struct bytes content, uint32_t id) {
    uint32_t node = 0;
    for (size_t i = 0; i < content.count; i++) {
        uint8_t byte = (uint8_t)content.data[i];
        uint32_t child = find_child(trie, node, byte);
        if (!child) {
            child = trie->node_count++;
            trie->nodes[child] =
                (struct added_node){.sibling = trie->nodes[node].child, .id = NO_ID, .byte = byte};
            trie->nodes[node].child = child;
        }
        node = child;
    }
    trie->nodes[node].id = id;
    trie->starts[(uint8_t)content.data[0]] = true;
}

static bool read_flag(const struct tree *entry, const char *key) {
    bool value = false;
    (void)tree_get_bool(tree_member(entry, key), &value);
    return value;
}

static enum status check_entry(const struct tree *entry, struct bytes content, const char *name,
                               struct error *error) {
    static const char *const unsupported[] = {"lstrip", "rstrip", "single_word"};
    for (size_t i = 0; i < ARRAY_COUNT(unsupported); i++)
        if (read_flag(entry, unsupported[i]))
            return error_set(error, STATUS_UNSUPPORTED,
                             "%s: added token '%.*s' asks for %s, which is not supported", name,
                             (int)(content.count < 64 ? content.count : 64), content.data,
                             unsupported[i]);
    return STATUS_OK;
}

enum status added_tokens_read(struct arena *arena, const struct tree *list, const char *name,
                              struct added_tokens *out, struct error *error) {
    size_t bytes[ADDED_GROUP_COUNT] = {0};
    struct bytes content;
    int64_t id = 0;
    for (size_t i = 0; i < tree_count(list); i++)
        if (tree_get_string(tree_member(tree_at(list, i), "content"), &content))
            bytes[read_flag(tree_at(list, i), "normalized")] += content.count;
    for (int group = 0; group < ADDED_GROUP_COUNT; group++) {
        struct added_trie *trie = &out->groups[group];
        *trie = (struct added_trie){.node_count = 1};
        if (bytes[group] >= NO_ID)
            return error_set(error, STATUS_TOO_LARGE, "%s: added_tokens: too much text", name);
        trie->nodes = arena_take(arena, (bytes[group] + 1) * sizeof *trie->nodes);
        if (!trie->nodes)
            return error_set(error, STATUS_NO_MEMORY, "%s: no memory for the added tokens", name);
        trie->nodes[0] = (struct added_node){.id = NO_ID};
    }
    for (size_t i = 0; i < tree_count(list); i++) {
        const struct tree *entry = tree_at(list, i);
        if (!tree_get_string(tree_member(entry, "content"), &content) ||
            !tree_get_integer(tree_member(entry, "id"), &id))
            return error_set(error, STATUS_INVALID, "%s: added_tokens[%zu]: no content or no id",
                             name, i);
        enum status status = check_entry(entry, content, name, error);
        if (status) return status;
        if (content.count > 0)
            added_tokens_insert(&out->groups[read_flag(entry, "normalized")], content,
                                (uint32_t)id);
    }
    return STATUS_OK;
}

/* Finds the longest token that `text` starts with. */
static bool added_tokens_longest(const struct added_trie *trie, struct bytes text,
                                 struct added_match *out) {
    bool found = false;
    uint32_t node = 0;
    for (size_t i = 0; i < text.count; i++) {
        node = find_child(trie, node, (uint8_t)text.data[i]);
        if (!node) break;
        if (trie->nodes[node].id == NO_ID) continue;
        out->end = i + 1;
        out->id = trie->nodes[node].id;
        found = true;
    }
    return found;
}

bool added_tokens_find(const struct added_tokens *added, enum added_group group, struct bytes text,
                       size_t from, struct added_match *out) {
    const struct added_trie *trie = &added->groups[group];
    for (size_t start = from; start < text.count; start++) {
        if (!trie->starts[(uint8_t)text.data[start]]) continue;
        struct added_match match;
        if (!added_tokens_longest(trie, (struct bytes){text.data + start, text.count - start},
                                  &match))
            continue;
        *out = (struct added_match){start, start + match.end, match.id};
        return true;
    }
    return false;
}

bool added_tokens_exact(const struct added_tokens *added, struct bytes text, uint32_t *id_out) {
    for (int group = 0; group < ADDED_GROUP_COUNT; group++) {
        struct added_match match;
        if (!added_tokens_longest(&added->groups[group], text, &match) || match.end != text.count)
            continue;
        *id_out = match.id;
        return true;
    }
    return false;
}
