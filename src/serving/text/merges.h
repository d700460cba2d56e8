/* SPDX-License-Identifier: Apache-2.0
 * Byte-pair merging: a word starts as one token a byte; of all neighbouring pairs that have a
 * merge, the one of lowest rank is merged (the leftmost on a tie), until none has. A short word is
 * scanned for its best pair; a long one keeps its pairs in a tournament tree, so that n bytes take
 * O(n log n), whatever they are.
 */
#ifndef SERVING_TEXT_MERGES_H
#define SERVING_TEXT_MERGES_H

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

/* Working memory for words of up to bytes_max bytes. */
struct merges_scratch {
    size_t bytes_max;
    uint32_t *ids;      /* [bytes_max] token at a position; the result, at last */
    uint32_t *next;     /* [bytes_max] position of the right neighbour */
    uint32_t *previous; /* [bytes_max] */
    uint32_t *ranks;    /* [bytes_max] of the pair that starts here */
    uint32_t *winners;  /* [bytes_max] inner nodes of the tournament */
};

/* Reads model.merges: "a b" strings or ["a", "b"] arrays. Working memory from `scratch`. */
enum status merges_read(struct arena *arena, struct arena *scratch, const struct tree *list,
                        const struct vocabulary *vocabulary, const char *name, struct merges *out,
                        struct error *error) MUST_USE;

/* False when the arena is too small. */
bool merges_scratch_open(struct merges_scratch *scratch, struct arena *arena, size_t bytes_max);

/* Tokens of a word of 1 to scratch->bytes_max bytes; they lie in scratch->ids. Returns how many. */
size_t merges_apply(const struct merges *merges, struct merges_scratch *scratch, struct bytes word);

#endif
