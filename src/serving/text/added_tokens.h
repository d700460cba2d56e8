/* SPDX-License-Identifier: Apache-2.0
 * Finds added tokens in raw text before any other step: leftmost first, the longest on a tie. As in
 * the tokenizers library, there are two groups. Tokens with "normalized": false are found first, in
 * the whole text, and the others in the text that remains. There is no normalizer here, so both
 * groups are found in the raw text. Each group is a trie over bytes.
 */
#pragma once

#include "base/limits.h"
#include "base/tree.h"

enum added_group { ADDED_VERBATIM, ADDED_NORMALIZED, ADDED_GROUP_COUNT };

struct added_trie {
    struct added_node {
        uint32_t child, sibling; /* 0: none (node 0 is the root, never a child) */
        uint32_t id;             /* id of the token that ends here, or UINT32_MAX */
        uint8_t byte;
    } * nodes;
    uint32_t node_count;
    bool starts[256]; /* bytes that a token can start with */
};

struct added_tokens {
    struct added_trie groups[ADDED_GROUP_COUNT];
};

/* Reads the array added_tokens of tokenizer.json (`list` may be NULL; messages use `name` for the
 * file). Returns STATUS_UNSUPPORTED for lstrip, rstrip or single_word. */
enum status added_tokens_read(struct arena *arena, const struct tree *list, const char *name,
                              struct added_tokens *out, struct error *error) MUST_USE;

struct added_match {
    size_t start, end;
    uint32_t id;
};

/* Finds the first match at or after `from`. Offsets are bytes of `text`; `end` is exclusive. */
bool added_tokens_find(const struct added_tokens *added, enum added_group group, struct bytes text,
                       size_t from, struct added_match *out);

/* Finds the token with exactly this content. */
bool added_tokens_exact(const struct added_tokens *added, struct bytes text, uint32_t *id_out);
