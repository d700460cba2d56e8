/* SPDX-License-Identifier: Apache-2.0
 * The vocabulary of a tokenizer. It maps each id to its bytes and its kind, and bytes to their id.
 * Only tokens spelled at byte level can be found by their bytes, because merging yields no others.
 */
#pragma once

#include "base/limits.h"
#include "base/tree.h"

#define VOCABULARY_NONE UINT32_MAX

enum vocabulary_flag {
    VOCABULARY_USED = 1,
    VOCABULARY_ADDED = 2,
    VOCABULARY_SPECIAL = 4,
};

struct vocabulary {
    uint32_t count; /* ids: 0..count-1 */
    struct vocabulary_entry {
        uint32_t offset, bytes; /* in `text` */
    } * entries;                /* [count] */
    uint8_t *flags;             /* [count] enum vocabulary_flag */
    char *text;
    uint32_t *slots; /* [slot_mask + 1] hash table of ids by bytes, VOCABULARY_NONE = free */
    uint32_t slot_mask;
};

/* Reads model.vocab (an object of ids) and added_tokens (an array, or NULL). Messages use `name`
 * for the file. */
enum status vocabulary_read(struct arena *arena, const struct tree *vocab,
                            const struct tree *added_tokens, const char *name,
                            struct vocabulary *out, struct error *error) MUST_USE;

/* Makes a vocabulary of `count` tokens whose ids are their places, and of added tokens whose bytes
 * are their text. Returns STATUS_INVALID if two of the tokens have the same bytes. */
enum status vocabulary_read_ranked(struct arena *arena, const struct bytes *tokens, uint32_t count,
                                   const struct tree *added_tokens, const char *name,
                                   struct vocabulary *out, struct error *error) MUST_USE;

/* The id of the token with these bytes, or VOCABULARY_NONE. */
uint32_t vocabulary_find(const struct vocabulary *vocabulary, struct bytes bytes);

static inline struct bytes vocabulary_bytes(const struct vocabulary *vocabulary, uint32_t id) {
    if (id >= vocabulary->count) return (struct bytes){"", 0};
    const struct vocabulary_entry *entry = &vocabulary->entries[id];
    return (struct bytes){vocabulary->text + entry->offset, entry->bytes};
}

static inline bool vocabulary_is(const struct vocabulary *vocabulary, uint32_t id,
                                 enum vocabulary_flag flag) {
    return id < vocabulary->count && (vocabulary->flags[id] & flag);
}
