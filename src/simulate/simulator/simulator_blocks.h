/* SPDX-License-Identifier: Apache-2.0
 * The KV blocks in one level of the storage: a set of keys of bounded size, which evicts the least
 * recently used one. The first eight bytes of a key, which is a hash, identify it.
 */
#pragma once

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

/* Adds a block that is complete from that time on. If it is present, the earlier time is kept. */
void simulator_blocks_add(struct simulator_blocks *set, const struct block_key *key,
                          int64_t whole_ns);

/* True if the block is present and complete. `use`: counts as a use. */
bool simulator_blocks_has(struct simulator_blocks *set, const struct block_key *key, bool use,
                          int64_t now_ns);

/* Prefetches the entries of keys that will be looked up next (16 or so), so that they are read from
 * memory in parallel. */
void simulator_blocks_prefetch(const struct simulator_blocks *set, const struct block_key *keys,
                               uint32_t count);

/* True if the block is present, complete or not yet. */
bool simulator_blocks_knows(const struct simulator_blocks *set, const struct block_key *key);
