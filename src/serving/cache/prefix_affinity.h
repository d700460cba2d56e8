/* SPDX-License-Identifier: Apache-2.0
 * Which units have computed which prefixes of late, by the gateway's own account: a bounded table
 * of block keys and, for each, the last units that were given a prompt with it. A guess, not a
 * promise: a unit may have had to forget a block, or never have made it. What is wrong costs time
 * only.
 *
 * Keys here are 64-bit hashes over the chain of blocks, from the tenant's salt on: cheap to make,
 * and a collision sends one request to another unit than is best. The blocks' true names are
 * serving/cache/block_key.h's.
 *
 * A unit is thought to forget as its pages would: each prompt that goes there moves its clock by
 * the blocks it brings, and what is older than all its pages is gone.
 */
#ifndef SERVING_CACHE_PREFIX_AFFINITY_H
#define SERVING_CACHE_PREFIX_AFFINITY_H

#include "base/arena.h"
#include "base/limits.h"
#include "base/status.h"

#define PREFIX_AFFINITY_UNITS 4 /* of one key that are remembered */

struct prefix_trace {
    uint64_t stamp; /* the unit's clock when it was given the block last */
    uint32_t unit;
};

struct prefix_entry {
    uint64_t key;                                      /* 0: empty */
    uint64_t used;                                     /* the table's clock */
    struct prefix_trace traces[PREFIX_AFFINITY_UNITS]; /* the latest first; stamp 0: none */
};

struct prefix_affinity {
    struct prefix_entry *entries; /* [set_count][ways] */
    uint32_t set_count;           /* a power of two */
    uint64_t used;
    uint64_t clocks[LIMIT_FLEET_UNITS]; /* blocks given to each unit */
    uint64_t floors[LIMIT_FLEET_UNITS]; /* what is not above them is forgotten */
    uint64_t blocks[LIMIT_FLEET_UNITS]; /* that its pages hold */
};

/* Arena bytes that suffice for prefix_affinity_open. */
size_t prefix_affinity_bytes(uint32_t entries);

/* `entries`: keys remembered, a power of two, at least 4. */
enum status prefix_affinity_open(struct prefix_affinity *affinity, struct arena *arena,
                                 uint32_t entries) MUST_USE;

/* keys_out[key_count], of the prompt's leading blocks. `root`: of the tenant. */
void prefix_affinity_keys(uint64_t root, const uint32_t *tokens, uint32_t key_count,
                          uint64_t *keys_out);

/* A unit has come in the place of another, with room for so many blocks: it has none. */
void prefix_affinity_welcome(struct prefix_affinity *affinity, uint32_t unit, uint64_t blocks);

/* The unit was given a prompt with these blocks. */
void prefix_affinity_note(struct prefix_affinity *affinity, uint32_t unit, const uint64_t *keys,
                          uint32_t key_count);

/* blocks_out[LIMIT_FLEET_UNITS]: leading blocks that each unit still has. Returns how many any unit
 * was ever given, which a storage that they share would have. */
uint32_t prefix_affinity_find(const struct prefix_affinity *affinity, const uint64_t *keys,
                              uint32_t key_count, uint32_t *blocks_out);

#endif
