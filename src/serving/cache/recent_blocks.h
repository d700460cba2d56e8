/* SPDX-License-Identifier: Apache-2.0
 * The last so many blocks that were put into a memory which forgets the oldest, by their true keys:
 * a guess at what is in it still, by somebody who sees what goes in and not what it does with it.
 * What is wrong costs time only.
 */
#ifndef SERVING_CACHE_RECENT_BLOCKS_H
#define SERVING_CACHE_RECENT_BLOCKS_H

#include "base/map.h"
#include "serving/cache/block_key.h"

struct recent_blocks {
    struct map places;    /* the first words of a key -> its place in the ring */
    struct map_key *ring; /* [capacity] */
    uint32_t capacity;    /* 0: nothing is remembered */
    uint32_t count, next; /* in the ring; where the next one goes */
};

/* Arena bytes that suffice for recent_blocks_open. */
size_t recent_blocks_bytes(uint32_t capacity);

enum status recent_blocks_open(struct recent_blocks *blocks, struct arena *arena,
                               uint32_t capacity) MUST_USE;

/* They are put in; one that is there stays as old as it is. */
void recent_blocks_note(struct recent_blocks *blocks, const struct block_key *keys,
                        uint32_t key_count);

/* How many leading ones of these are there, without a gap. */
uint32_t recent_blocks_count(const struct recent_blocks *blocks, const struct block_key *keys,
                             uint32_t key_count);

#endif
