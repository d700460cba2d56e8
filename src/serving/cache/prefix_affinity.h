/* SPDX-License-Identifier: Apache-2.0
 * The gateway's estimate of the units that have a prefix in their cache. It is a bounded table of
 * block keys, each with the last units that got a prompt with that block. A unit may have evicted a
 * block, or never have computed it. An error only costs time.
 *
 * Keys here are 64-bit hashes over the chain of blocks, starting with the salt of the tenant. They
 * are cheap, and a collision only sends one request to a suboptimal unit. serving/cache/block_key.h
 * has the true keys of blocks.
 *
 * Eviction by a unit is modelled. Each prompt sent to a unit advances the unit's clock by the
 * number of its blocks. Blocks older than the capacity of the unit's pages count as evicted.
 */
#pragma once

#include "base/arena.h"
#include "base/limits.h"
#include "base/status.h"

#define PREFIX_AFFINITY_UNITS 4 /* units per key */

struct prefix_trace {
    uint64_t stamp; /* clock of the unit when it last received the block */
    uint32_t unit;
};

struct prefix_entry {
    uint64_t key;                                      /* 0: empty */
    uint64_t used;                                     /* clock of the table at the last use */
    struct prefix_trace traces[PREFIX_AFFINITY_UNITS]; /* latest first; stamp 0: none */
};

struct prefix_affinity {
    struct prefix_entry *entries; /* [set_count][ways] */
    uint32_t set_count;           /* a power of two */
    uint64_t used;
    uint64_t clocks[LIMIT_FLEET_UNITS]; /* blocks sent to each unit */
    uint64_t floors[LIMIT_FLEET_UNITS]; /* blocks with stamps up to these count as evicted */
    uint64_t blocks[LIMIT_FLEET_UNITS]; /* capacity of its pages */
};

/* Arena bytes that prefix_affinity_open needs. */
size_t prefix_affinity_bytes(uint32_t entries);

/* `entries`: keys in the table, a power of two, at least 4. */
enum status prefix_affinity_open(struct prefix_affinity *affinity, struct arena *arena,
                                 uint32_t entries) MUST_USE;

/* keys_out[key_count]: keys of the prompt's leading blocks. `root`: root key of the tenant. */
void prefix_affinity_keys(uint64_t root, const uint32_t *tokens, uint32_t key_count,
                          uint64_t *keys_out);

/* Starts the history of a new unit at this index. `blocks`: capacity of its pages. */
void prefix_affinity_welcome(struct prefix_affinity *affinity, uint32_t unit, uint64_t blocks);

/* Records that the unit was sent a prompt with these blocks. */
void prefix_affinity_note(struct prefix_affinity *affinity, uint32_t unit, const uint64_t *keys,
                          uint32_t key_count);

/* blocks_out[LIMIT_FLEET_UNITS]: the number of leading blocks that each unit probably still has.
 * Returns the largest number that any unit was ever sent, because a shared KV storage would have
 * those. */
uint32_t prefix_affinity_find(const struct prefix_affinity *affinity, const uint64_t *keys,
                              uint32_t key_count, uint32_t *blocks_out);
