/* SPDX-License-Identifier: Apache-2.0
 * The index of the KV storage, by block key. For each block it has the location on disk (segment
 * and slot), in host memory (frame), or both, the position in its sequence, and its heat. Capacity
 * and memory are fixed. A block takes STORE_INDEX_BLOCK_BYTES.
 *
 * Only the first half of a key is used here. After a block is read, the whole key in its header
 * page is compared, so a collision only costs a hit.
 *
 * Time is counted in uses (blocks touched or added), not in seconds: idle time does not age blocks.
 */
#pragma once

#include "base/arena.h"
#include "serving/cache/block_key.h"

#define STORE_NONE UINT32_MAX

struct store_name { /* the key of a block */
    uint64_t high, low;
};

struct store_block {
    struct store_name name, parent;
    uint32_t segment, slot; /* STORE_NONE: not on disk */
    uint32_t frame;         /* STORE_NONE: not in host memory */
    uint32_t position;      /* blocks before it in its sequence */
    uint32_t last_use;
    float heat; /* number of uses, halved every half-life until last_use */
};

struct store_index {
    struct store_block *blocks; /* [capacity] a free block has neither frame nor segment */
    uint32_t *table;            /* [table_count] block + 1; 0: empty */
    uint32_t table_count, capacity, count;
    uint32_t used_count; /* blocks from this index on have never been used */
    uint32_t first_free; /* head of a list linked through last_use; STORE_NONE: empty */
    uint32_t clock;
    uint32_t half_life; /* in uses */
};

#define STORE_INDEX_BLOCK_BYTES (sizeof(struct store_block) + 3 * sizeof(uint32_t))

static inline struct store_name store_name_of(const struct block_key *key) {
    struct store_name name;
    memcpy(&name, key->bytes, sizeof name);
    return name;
}

/* Arena bytes that store_index_open needs. */
size_t store_index_bytes(uint32_t capacity);

enum status store_index_open(struct store_index *index, struct arena *arena,
                             uint32_t capacity) MUST_USE;

/* The block with this key; STORE_NONE if there is none. */
uint32_t store_index_find(const struct store_index *index, const struct block_key *key);

/* The number of leading keys in the index. `host_out` (may be NULL): the number of those that are
 * in host memory. */
uint32_t store_index_match_prefix(const struct store_index *index, const struct block_key *keys,
                                  uint32_t count, uint32_t *host_out);

/* Finds or adds the block of this key. After adding, the caller must set a location at once.
 * STORE_NONE if the index is full. */
uint32_t store_index_add(struct store_index *index, const struct block_key *key,
                         const struct block_key *parent, uint32_t position);

/* Set the location on disk, or the frame in host memory. STORE_NONE removes it. A block without any
 * location is removed. */
void store_index_set_disk(struct store_index *index, uint32_t block, uint32_t segment,
                          uint32_t slot);
void store_index_set_frame(struct store_index *index, uint32_t block, uint32_t frame);

/* Removes all locations in that segment. Returns the number of blocks that had one. */
uint32_t store_index_drop_segment(struct store_index *index, uint32_t segment);

/* Marks the block as used now. */
void store_index_touch(struct store_index *index, uint32_t block);

/* The heat of a block at the current clock. */
double store_index_heat(const struct store_index *index, uint32_t block);

static inline bool store_index_used(const struct store_index *index, uint32_t block) {
    const struct store_block *entry = &index->blocks[block];
    return entry->segment != STORE_NONE || entry->frame != STORE_NONE;
}

/* Recounts all redundant state and checks it. Slow. */
void store_index_audit(const struct store_index *index);
