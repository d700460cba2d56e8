/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/simulator_blocks.h"

#include <string.h>

#define NO_BLOCK UINT32_MAX

struct simulator_block {
    uint64_t key;
    int64_t whole_ns;
    uint32_t chained;      /* 1 + the next block of the bucket; 0: none */
    uint32_t newer, older; /* by last use */
};

static uint32_t buckets_of(uint32_t capacity) {
    uint32_t count = 16;
    while (count < capacity)
        count *= 2;
    return count;
}

size_t simulator_blocks_bytes(uint32_t capacity) {
    return capacity * sizeof(struct simulator_block) + buckets_of(capacity) * sizeof(uint32_t) + 64;
}

void simulator_blocks_clear(struct simulator_blocks *set) {
    memset(set->buckets, 0, set->bucket_count * sizeof *set->buckets);
    set->count = 0;
    set->newest = set->oldest = NO_BLOCK;
}

bool simulator_blocks_open(struct simulator_blocks *set, struct arena *arena, uint32_t capacity) {
    *set = (struct simulator_blocks){.capacity = capacity, .bucket_count = buckets_of(capacity)};
    set->blocks = arena_take(arena, capacity * sizeof *set->blocks);
    set->buckets = arena_take(arena, set->bucket_count * sizeof *set->buckets);
    if (!set->blocks || !set->buckets) return false;
    simulator_blocks_clear(set);
    return true;
}

static uint64_t simulator_blocks_name_of(const struct block_key *key) {
    uint64_t name;
    memcpy(&name, key->bytes, sizeof name);
    return name;
}

static uint32_t *simulator_blocks_bucket_of(const struct simulator_blocks *set, uint64_t name) {
    return &set->buckets[name & (set->bucket_count - 1)];
}

static struct simulator_block *find(const struct simulator_blocks *set, uint64_t name) {
    for (uint32_t at = *simulator_blocks_bucket_of(set, name); at; at = set->blocks[at - 1].chained)
        if (set->blocks[at - 1].key == name) return &set->blocks[at - 1];
    return NULL;
}

void simulator_blocks_prefetch(const struct simulator_blocks *set, const struct block_key *keys,
                               uint32_t count) {
    if (set->capacity == 0) return;
    for (uint32_t i = 0; i < count; i++)
        __builtin_prefetch(simulator_blocks_bucket_of(set, simulator_blocks_name_of(&keys[i])));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = *simulator_blocks_bucket_of(set, simulator_blocks_name_of(&keys[i]));
        if (at) __builtin_prefetch(&set->blocks[at - 1], 1);
    }
}

/* ---- order of use ---- */

static void unlink_use(struct simulator_blocks *set, struct simulator_block *block) {
    if (block->newer == NO_BLOCK)
        set->newest = block->older;
    else
        set->blocks[block->newer].older = block->older;
    if (block->older == NO_BLOCK)
        set->oldest = block->newer;
    else
        set->blocks[block->older].newer = block->newer;
}

static void link_use(struct simulator_blocks *set, struct simulator_block *block) {
    uint32_t index = (uint32_t)(block - set->blocks);
    block->newer = NO_BLOCK;
    block->older = set->newest;
    if (set->newest != NO_BLOCK) set->blocks[set->newest].newer = index;
    set->newest = index;
    if (set->oldest == NO_BLOCK) set->oldest = index;
}

/* ---- insertion and eviction ---- */

static struct simulator_block *take_oldest(struct simulator_blocks *set) {
    struct simulator_block *block = &set->blocks[set->oldest];
    uint32_t own = set->oldest + 1, *link = simulator_blocks_bucket_of(set, block->key);
    while (*link != own)
        link = &set->blocks[*link - 1].chained;
    *link = block->chained;
    unlink_use(set, block);
    return block;
}

void simulator_blocks_add(struct simulator_blocks *set, const struct block_key *key,
                          int64_t whole_ns) {
    uint64_t name = simulator_blocks_name_of(key);
    if (set->capacity == 0) return;
    struct simulator_block *block = find(set, name);
    if (block) {
        if (whole_ns < block->whole_ns) block->whole_ns = whole_ns;
        unlink_use(set, block);
    } else {
        block = set->count < set->capacity ? &set->blocks[set->count++] : take_oldest(set);
        uint32_t *bucket = simulator_blocks_bucket_of(set, name);
        *block = (struct simulator_block){.key = name, .whole_ns = whole_ns, .chained = *bucket};
        *bucket = (uint32_t)(block - set->blocks) + 1;
    }
    link_use(set, block);
}

bool simulator_blocks_has(struct simulator_blocks *set, const struct block_key *key, bool use,
                          int64_t now_ns) {
    struct simulator_block *block = find(set, simulator_blocks_name_of(key));
    if (!block || block->whole_ns > now_ns) return false;
    if (!use) return true;
    unlink_use(set, block);
    link_use(set, block);
    return true;
}

bool simulator_blocks_knows(const struct simulator_blocks *set, const struct block_key *key) {
    return find(set, simulator_blocks_name_of(key)) != NULL;
}
