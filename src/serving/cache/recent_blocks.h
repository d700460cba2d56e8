/* SPDX-License-Identifier: Apache-2.0
 * Estimates the contents of a memory with first-in, first-out eviction, for a component that sees
 * only the insertions. It keeps the true keys of the blocks inserted last. An error only costs
 * time.
 */
#pragma once

#include "base/map.h"
#include "serving/cache/block_key.h"

struct recent_blocks {
    struct map places;    /* first words of a key -> index in the ring */
    struct map_key *ring; /* [capacity] */
    uint32_t capacity;    /* 0: disabled */
    uint32_t count, next; /* number of entries in the ring; index of the next one */
};

/* Arena bytes that recent_blocks_open needs. */
size_t recent_blocks_bytes(uint32_t capacity);

enum status recent_blocks_open(struct recent_blocks *blocks, struct arena *arena,
                               uint32_t capacity) MUST_USE;

/* Adds blocks. A block that is present keeps its age. */
void recent_blocks_note(struct recent_blocks *blocks, const struct block_key *keys,
                        uint32_t key_count);

/* The number of leading keys that are present. */
uint32_t recent_blocks_count(const struct recent_blocks *blocks, const struct block_key *keys,
                             uint32_t key_count);
