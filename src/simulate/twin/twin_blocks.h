/* SPDX-License-Identifier: Apache-2.0
 * Which KV blocks a tier of the storage has: a set of keys of a bounded size, from which the one
 * that was used longest ago goes first. A key is known by its first eight bytes; they are a hash's.
 */
#ifndef SIMULATE_TWIN_TWIN_BLOCKS_H
#define SIMULATE_TWIN_TWIN_BLOCKS_H

#include "base/arena.h"
#include "contract/ids.h"

struct twin_block;

struct twin_blocks {
    struct twin_block *blocks; /* [capacity], of them count */
    uint32_t *buckets; /* [bucket_count] a power of two: 1 + the first block of each chain */
    uint32_t capacity, bucket_count, count;
    uint32_t newest, oldest;
};

size_t twin_blocks_bytes(uint32_t capacity);

/* False when the arena is out of memory. A set of no capacity stays empty. */
bool twin_blocks_open(struct twin_blocks *set, struct arena *arena, uint32_t capacity);

void twin_blocks_clear(struct twin_blocks *set);

/* It is whole from that moment on; if it was there, the earlier moment holds. */
void twin_blocks_add(struct twin_blocks *set, const struct block_key *key, int64_t whole_ns);

/* True if it is there and whole. `use`: it counts as used. */
bool twin_blocks_has(struct twin_blocks *set, const struct block_key *key, bool use,
                     int64_t now_ns);

/* Those keys will be looked for next: 16 or so, whose blocks come from memory at the same time. */
void twin_blocks_prefetch(const struct twin_blocks *set, const struct block_key *keys,
                          uint32_t count);

/* True if it is there, or will be when it is whole. */
bool twin_blocks_knows(const struct twin_blocks *set, const struct block_key *key);

#endif
