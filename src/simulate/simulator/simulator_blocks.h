/* SPDX-License-Identifier: Apache-2.0
 * The KV blocks in one level of the storage: a set of block keys of bounded size with LRU eviction.
 * A key is a hash; its first eight bytes identify it here.
 */
#pragma once

#include "base/arena.h"
#include "contract/ids.h"

struct simulator_block;

struct simulator_blocks {
    struct simulator_block *blocks; /* [capacity], `count` of them used */
    uint32_t *buckets; /* [bucket_count], a power of two: 1 + the first block of each chain */
    uint32_t capacity, bucket_count, count;
    uint32_t newest, oldest;
};

size_t simulator_blocks_bytes(uint32_t capacity);

/* Returns false if the arena is out of memory. A set without capacity stays empty. */
bool simulator_blocks_open(struct simulator_blocks *set, struct arena *arena, uint32_t capacity);

void simulator_blocks_clear(struct simulator_blocks *set);

/* Adds a block that is complete from whole_ns on. If it is present, the earlier time is kept. */
void simulator_blocks_add(struct simulator_blocks *set, const struct block_key *key,
                          int64_t whole_ns);

/* True if the block is present and complete. With `use`, this counts as a use of it. */
bool simulator_blocks_has(struct simulator_blocks *set, const struct block_key *key, bool use,
                          int64_t now_ns);

/* Prefetches the entries of about 16 keys that will be looked up next, so that their cache misses
 * overlap. */
void simulator_blocks_prefetch(const struct simulator_blocks *set, const struct block_key *keys,
                               uint32_t count);

/* True if the block is present, even if it is not complete yet. */
bool simulator_blocks_knows(const struct simulator_blocks *set, const struct block_key *key);
