/* SPDX-License-Identifier: Apache-2.0
 * Byte-pair encoding of a word. The word starts as one token per byte. The adjacent pair with the
 * merge of lowest rank is merged (the leftmost on a tie), until no pair has a merge. A short word
 * is scanned for its best pair. A long word keeps its pairs in a tournament tree, so that n bytes
 * always take O(n log n).
 */
#pragma once

#include "serving/text/vocabulary.h"

#define MERGES_SHORT_BYTES 48 /* longest word that needs no working memory */

struct merges {
    uint32_t byte_ids[256];
    struct merge_slot {
        uint32_t left, right;
        uint32_t rank; /* UINT32_MAX: the slot is free */
    } * slots;         /* [slot_mask + 1] */
    uint32_t slot_mask;
    uint32_t *results; /* [rank] token made by the merge */
};

/* Working memory for words of up to bytes_max bytes. Each thread needs its own. */
struct merges_scratch {
    size_t bytes_max;
    uint32_t *ids;      /* [bytes_max] token at a position; the result at the end */
    uint32_t *next;     /* [bytes_max] position of the right neighbour */
    uint32_t *previous; /* [bytes_max] */
    uint32_t *ranks;    /* [bytes_max] rank of the pair that starts here */
    uint32_t *winners;  /* [bytes_max] inner nodes of the tournament */
};

/* Reads model.merges: "a b" strings or ["a", "b"] arrays. `scratch` provides working memory. */
enum status merges_read(struct arena *arena, struct arena *scratch, const struct tree *list,
                        const struct vocabulary *vocabulary, const char *name, struct merges *out,
                        struct error *error) MUST_USE;

/* Makes the merges of tiktoken. Two adjacent tokens merge if their bytes together are one of the
 * tokens 0..count-1, and the rank of the merge is that token's id. */
enum status merges_derive(struct arena *arena, struct arena *scratch,
                          const struct vocabulary *vocabulary, uint32_t count, const char *name,
                          struct merges *out, struct error *error) MUST_USE;

/* Allocates the working memory. Returns false if the arena is too small. */
bool merges_scratch_open(struct merges_scratch *scratch, struct arena *arena, size_t bytes_max);

/* Computes the tokens of a word of 1 to scratch->bytes_max bytes into scratch->ids. Returns how
 * many they are. */
size_t merges_apply(const struct merges *merges, struct merges_scratch *scratch, struct bytes word);
