/* SPDX-License-Identifier: Apache-2.0
 * The KV blocks that a tier of the storage has: a set of keys of bounded size, which evicts the
 * least recently used one. A key is identified by its first eight bytes, which are a hash's.
 */
#ifndef SIMULATE_SIMULATOR_SIMULATOR_BLOCKS_H
#define SIMULATE_SIMULATOR_SIMULATOR_BLOCKS_H

#include "base/arena.h"
#include "contract/ids.h"

struct simulator_block;

struct simulator_blocks {
    struct simulator_block *blocks; /* [capacity], `count` of them used */
    uint32_t *buckets; /* [bucket_count] a power of two: 1 + the first block of each chain */
    uint32_t capacity, bucket_count, count;
    uint32_t newest, oldest;
};

size_t simulator_blocks_bytes(uint32_t capacity);

/* Returns false if the arena is out of memory. A set without capacity stays empty. */
bool simulator_blocks_open(struct simulator_blocks *set, struct arena *arena, uint32_t capacity);

void simulator_blocks_clear(struct simulator_blocks *set);

/* Adds a block that is whole from that time on. If it is already there, the earlier time holds. */
void simulator_blocks_add(struct simulator_blocks *set, const struct block_key *key,
                          int64_t whole_ns);

/* True if it is there and whole. `use`: counts as a use. */
bool simulator_blocks_has(struct simulator_blocks *set, const struct block_key *key, bool use,
                          int64_t now_ns);

/* Prefetches the entries of keys that will be looked up next (16 or so), so that they are read from
 * memory in parallel. */
void simulator_blocks_prefetch(const struct simulator_blocks *set, const struct block_key *keys,
                               uint32_t count);

/* True if it is there, or will be once it is whole. */
bool simulator_blocks_knows(const struct simulator_blocks *set, const struct block_key *key);

#endif
