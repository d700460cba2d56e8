/* SPDX-License-Identifier: Apache-2.0
 * What the KV storage has, by block key: where a block lies on disk (segment and slot), in host
 * memory (frame), or both; where in its sequence it stands, and how warm it is. Capacity and memory
 * are fixed; a block takes STORE_INDEX_BLOCK_BYTES of it.
 *
 * The first half of a key stands for the whole one: what is read is compared with the whole key in
 * its header page, so a collision could only cost a hit.
 *
 * Time is counted in uses (blocks touched or added), not in seconds: what is idle does not age.
 */
#ifndef SERVING_CACHE_STORE_INDEX_H
#define SERVING_CACHE_STORE_INDEX_H

#include "base/arena.h"
#include "serving/cache/block_key.h"

#define STORE_NONE UINT32_MAX

struct store_name { /* of a block */
    uint64_t high, low;
};

struct store_block {
    struct store_name name, parent;
    uint32_t segment, slot; /* STORE_NONE: not on disk */
    uint32_t frame;         /* STORE_NONE: not in host memory */
    uint32_t position;      /* blocks before it in its sequence */
    uint32_t last_use;
    float heat; /* uses, each halved for every half life that passed until last_use */
};

struct store_index {
    struct store_block *blocks; /* [capacity]; a free one has neither frame nor segment */
    uint32_t *table;            /* [table_count] block + 1; 0: empty */
    uint32_t table_count, capacity, count;
    uint32_t used_count; /* blocks from here on were never used */
    uint32_t first_free; /* a list through last_use; STORE_NONE: none */
    uint32_t clock;
    uint32_t half_life; /* in uses */
};

#define STORE_INDEX_BLOCK_BYTES (sizeof(struct store_block) + 3 * sizeof(uint32_t))

static inline struct store_name store_name_of(const struct block_key *key) {
    struct store_name name;
    memcpy(&name, key->bytes, sizeof name);
    return name;
}

/* Arena bytes that suffice for store_index_open. */
size_t store_index_bytes(uint32_t capacity);

enum status store_index_open(struct store_index *index, struct arena *arena,
                             uint32_t capacity) MUST_USE;

/* STORE_NONE if it is not there. */
uint32_t store_index_find(const struct store_index *index, const struct block_key *key);

/* How many leading keys it has. `host_out` (may be NULL): how many of those stand in memory. */
uint32_t store_index_leading(const struct store_index *index, const struct block_key *keys,
                             uint32_t count, uint32_t *host_out);

/* The block of this key, new if need be (its place must then be set at once); STORE_NONE: full. */
uint32_t store_index_add(struct store_index *index, const struct block_key *key,
                         const struct block_key *parent, uint32_t position);

/* STORE_NONE takes it away. A block that lies nowhere is forgotten. */
void store_index_place(struct store_index *index, uint32_t block, uint32_t segment, uint32_t slot);
void store_index_hold(struct store_index *index, uint32_t block, uint32_t frame);

/* Everything on that segment lies there no longer; returns how many blocks did. */
uint32_t store_index_drop_segment(struct store_index *index, uint32_t segment);

/* Used now. */
void store_index_touch(struct store_index *index, uint32_t block);

/* Heat as of now. */
double store_index_heat(const struct store_index *index, uint32_t block);

static inline bool store_index_used(const struct store_index *index, uint32_t block) {
    const struct store_block *entry = &index->blocks[block];
    return entry->segment != STORE_NONE || entry->frame != STORE_NONE;
}

/* Recounts what is kept twice; check()s that it agrees. Slow. */
void store_index_audit(const struct store_index *index);

#endif
