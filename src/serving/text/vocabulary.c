/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/text/vocabulary.h"

#include "base/byte_level.h"
#include "base/hash.h"

uint32_t vocabulary_find(const struct vocabulary *vocabulary, struct bytes bytes) {
    for (uint64_t at = hash_bytes(0, bytes.data, bytes.count);; at++) {
        uint32_t id = vocabulary->slots[at & vocabulary->slot_mask];
        if (id == VOCABULARY_NONE || bytes_equal(vocabulary_bytes(vocabulary, id), bytes))
            return id;
    }
}

static void vocabulary_enter(struct vocabulary *vocabulary, uint32_t id) {
    struct bytes bytes = vocabulary_bytes(vocabulary, id);
    uint64_t at = hash_bytes(0, bytes.data, bytes.count);
    while (vocabulary->slots[at & vocabulary->slot_mask] != VOCABULARY_NONE)
        at++;
    vocabulary->slots[at & vocabulary->slot_mask] = id;
}

static enum status check_id(int64_t id, struct bytes token, const char *name, struct error *error) {
    if (id >= 0 && id < LIMIT_VOCAB) return STATUS_OK;
    return error_set(error, STATUS_TOO_LARGE, "%s: token '%.*s' has id %lld, expected 0 to %d",
                     name, (int)(token.count < 64 ? token.count : 64), token.data, (long long)id,
                     LIMIT_VOCAB - 1);
}

/* The memory needed, computed by one pass over vocab and added_tokens. */
struct extent {
    size_t ids, bytes, tokens;
};

static enum status measure_added(const struct tree *added, const char *name, struct extent *extent,
                                 struct error *error) {
    struct bytes token;
    int64_t id;
    for (size_t i = 0; i < tree_count(added); i++) {
        const struct tree *entry = tree_at(added, i);
        if (!tree_get_integer(tree_member(entry, "id"), &id) ||
            !tree_get_string(tree_member(entry, "content"), &token))
            return error_set(error, STATUS_INVALID,
                             "%s: added_tokens[%zu]: expected an integer id and a string content",
                             name, i);
        enum status status = check_id(id, token, name, error);
        if (status) return status;
        if ((size_t)id >= extent->ids) extent->ids = (size_t)id + 1;
        extent->bytes += token.count;
    }
    if (extent->bytes > UINT32_MAX)
        return error_set(error, STATUS_TOO_LARGE, "%s: the vocabulary has %zu bytes of text", name,
                         extent->bytes);
    return STATUS_OK;
}

static enum status vocabulary_measure(const struct tree *vocab, const struct tree *added,
                                      const char *name, struct extent *extent,
                                      struct error *error) {
    struct tree_cursor cursor = {NULL};
    struct bytes token;
    const struct tree *value;
    int64_t id;
    while (tree_next_member(vocab, &cursor, &token, &value)) {
        if (!tree_get_integer(value, &id))
            return error_set(error, STATUS_INVALID,
                             "%s: model.vocab: the id of '%.*s' is %s, expected an integer", name,
                             (int)(token.count < 64 ? token.count : 64), token.data,
                             tree_name(value));
        enum status status = check_id(id, token, name, error);
        if (status) return status;
        if ((size_t)id >= extent->ids) extent->ids = (size_t)id + 1;
        extent->bytes += token.count;
        extent->tokens++;
    }
    return measure_added(added, name, extent, error);
}

static enum status vocabulary_reserve(struct arena *arena, struct extent extent, const char *name,
                                      struct vocabulary *out, struct error *error) {
    uint32_t slot_count = 16;
    while (slot_count < 2 * extent.tokens)
        slot_count *= 2;
    *out = (struct vocabulary){
        .count = (uint32_t)extent.ids,
        .entries = arena_take_zeroed(arena, extent.ids * sizeof *out->entries),
        .flags = arena_take_zeroed(arena, extent.ids),
        .text = arena_take(arena, extent.bytes),
        .slots = arena_take(arena, slot_count * sizeof *out->slots),
        .slot_mask = slot_count - 1,
    };
    if (!out->entries || !out->flags || !out->text || !out->slots)
        return error_set(error, STATUS_NO_MEMORY, "%s: no memory for %zu tokens", name, extent.ids);
    memset(out->slots, 0xFF, slot_count * sizeof *out->slots);
    return STATUS_OK;
}

/* Stores the first `count` bytes of the free text as those of `id`. */
static void vocabulary_keep(struct vocabulary *vocabulary, uint32_t id, size_t count,
                            size_t *used) {
    vocabulary->entries[id] = (struct vocabulary_entry){(uint32_t)*used, (uint32_t)count};
    vocabulary->flags[id] |= VOCABULARY_USED;
    *used += count;
}

static void vocabulary_store(struct vocabulary *vocabulary, uint32_t id, struct bytes token,
                             size_t *used) {
    if (token.count) memcpy(vocabulary->text + *used, token.data, token.count);
    vocabulary_keep(vocabulary, id, token.count, used);
}

/* Stores the bytes of `id`. They are those that it spells, or its text if it spells none. Returns
 * true if it spells some. */
static bool spell(struct vocabulary *vocabulary, uint32_t id, struct bytes token, size_t *used) {
    size_t count = 0;
    bool spelled = byte_level_decode(token, vocabulary->text + *used, &count);
    if (spelled)
        vocabulary_keep(vocabulary, id, count, used);
    else
        vocabulary_store(vocabulary, id, token, used);
    return spelled;
}

/* `vocab` NULL: the tokens are bytes, and none spells others. */
static enum status add(struct vocabulary *vocabulary, const struct tree *vocab,
                       const struct tree *entry, const char *name, size_t *used,
                       struct error *error) {
    struct bytes content = {"", 0};
    int64_t id = 0, model_id = 0;
    bool special = false;
    if (!tree_get_integer(tree_member(entry, "id"), &id) ||
        !tree_get_string(tree_member(entry, "content"), &content))
        return STATUS_INVALID; /* already rejected by measure() */
    (void)tree_get_bool(tree_member(entry, "special"), &special);
    int shown = (int)(content.count < 64 ? content.count : 64);
    /* tree_member takes a terminated key, so a content with U+0000 is not found. */
    bool known = tree_get_integer(tree_member(vocab, content.data), &model_id) &&
                 strlen(content.data) == content.count;
    if (known ? model_id != id : vocabulary->flags[id] != 0)
        return error_set(error, STATUS_INVALID,
                         "%s: added token '%.*s' has id %lld, which belongs to another token", name,
                         shown, content.data, (long long)id);
    if (!known && vocab) (void)spell(vocabulary, (uint32_t)id, content, used);
    if (!known && !vocab) vocabulary_store(vocabulary, (uint32_t)id, content, used);
    vocabulary->flags[id] |= (uint8_t)(VOCABULARY_ADDED | (special ? VOCABULARY_SPECIAL : 0));
    return STATUS_OK;
}

enum status vocabulary_read(struct arena *arena, const struct tree *vocab,
                            const struct tree *added_tokens, const char *name,
                            struct vocabulary *out, struct error *error) {
    struct extent extent = {0};
    enum status status = vocabulary_measure(vocab, added_tokens, name, &extent, error);
    if (!status) status = vocabulary_reserve(arena, extent, name, out, error);
    if (status) return status;
    struct tree_cursor cursor = {NULL};
    struct bytes token;
    const struct tree *value;
    size_t used = 0;
    while (tree_next_member(vocab, &cursor, &token, &value)) {
        int64_t id = 0;
        if (!tree_get_integer(value, &id)) continue;
        if (out->flags[id])
            return error_set(error, STATUS_INVALID, "%s: model.vocab: two tokens have id %lld",
                             name, (long long)id);
        if (spell(out, (uint32_t)id, token, &used)) vocabulary_enter(out, (uint32_t)id);
    }
    for (size_t i = 0; i < tree_count(added_tokens) && !status; i++)
        status = add(out, vocab, tree_at(added_tokens, i), name, &used, error);
    return status;
}

enum status vocabulary_read_ranked(struct arena *arena, const struct bytes *tokens, uint32_t count,
                                   const struct tree *added_tokens, const char *name,
                                   struct vocabulary *out, struct error *error) {
    struct extent extent = {.ids = count, .tokens = count};
    size_t used = 0;
    for (uint32_t id = 0; id < count; id++)
        extent.bytes += tokens[id].count;
    enum status status = measure_added(added_tokens, name, &extent, error);
    if (!status) status = vocabulary_reserve(arena, extent, name, out, error);
    if (status) return status;
    for (uint32_t id = 0; id < count; id++) {
        uint32_t other = vocabulary_find(out, tokens[id]);
        if (other != VOCABULARY_NONE)
            return error_set(error, STATUS_INVALID,
                             "%s: the tokens %u and %u have the same bytes, expected each once",
                             name, other, id);
        vocabulary_store(out, id, tokens[id], &used);
        vocabulary_enter(out, id);
    }
    for (size_t i = 0; i < tree_count(added_tokens) && !status; i++)
        status = add(out, NULL, tree_at(added_tokens, i), name, &used, error);
    return status;
}
