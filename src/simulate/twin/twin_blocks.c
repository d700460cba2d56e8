/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/twin/twin_blocks.h"

#include <string.h>

#define NOBODY UINT32_MAX

struct twin_block {
    uint64_t key;
    int64_t whole_ns;
    uint32_t chained;      /* 1 + the next one of its bucket; 0: none */
    uint32_t newer, older; /* by last use */
};

static uint32_t buckets_of(uint32_t capacity) {
    uint32_t count = 16;
    while (count < capacity)
        count *= 2;
    return count;
}

size_t twin_blocks_bytes(uint32_t capacity) {
    return capacity * sizeof(struct twin_block) + buckets_of(capacity) * sizeof(uint32_t) + 64;
}

void twin_blocks_clear(struct twin_blocks *set) {
    memset(set->buckets, 0, set->bucket_count * sizeof *set->buckets);
    set->count = 0;
    set->newest = set->oldest = NOBODY;
}

bool twin_blocks_open(struct twin_blocks *set, struct arena *arena, uint32_t capacity) {
    *set = (struct twin_blocks){.capacity = capacity, .bucket_count = buckets_of(capacity)};
    set->blocks = arena_take(arena, capacity * sizeof *set->blocks);
    set->buckets = arena_take(arena, set->bucket_count * sizeof *set->buckets);
    if (!set->blocks || !set->buckets) return false;
    twin_blocks_clear(set);
    return true;
}

static uint64_t name_of(const struct block_key *key) {
    uint64_t name;
    memcpy(&name, key->bytes, sizeof name);
    return name;
}

static uint32_t *bucket_of(const struct twin_blocks *set, uint64_t name) {
    return &set->buckets[name & (set->bucket_count - 1)];
}

static struct twin_block *find(const struct twin_blocks *set, uint64_t name) {
    for (uint32_t at = *bucket_of(set, name); at; at = set->blocks[at - 1].chained)
        if (set->blocks[at - 1].key == name) return &set->blocks[at - 1];
    return NULL;
}

void twin_blocks_prefetch(const struct twin_blocks *set, const struct block_key *keys,
                          uint32_t count) {
    if (set->capacity == 0) return;
    for (uint32_t i = 0; i < count; i++)
        __builtin_prefetch(bucket_of(set, name_of(&keys[i])));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = *bucket_of(set, name_of(&keys[i]));
        if (at) __builtin_prefetch(&set->blocks[at - 1], 1);
    }
}

/* ---- order of use ---- */

static void unlink_use(struct twin_blocks *set, struct twin_block *block) {
    if (block->newer == NOBODY)
        set->newest = block->older;
    else
        set->blocks[block->newer].older = block->older;
    if (block->older == NOBODY)
        set->oldest = block->newer;
    else
        set->blocks[block->older].newer = block->newer;
}

static void link_use(struct twin_blocks *set, struct twin_block *block) {
    uint32_t index = (uint32_t)(block - set->blocks);
    block->newer = NOBODY;
    block->older = set->newest;
    if (set->newest != NOBODY) set->blocks[set->newest].newer = index;
    set->newest = index;
    if (set->oldest == NOBODY) set->oldest = index;
}

/* ---- insertion and eviction ---- */

static struct twin_block *take_oldest(struct twin_blocks *set) {
    struct twin_block *block = &set->blocks[set->oldest];
    uint32_t own = set->oldest + 1, *link = bucket_of(set, block->key);
    while (*link != own)
        link = &set->blocks[*link - 1].chained;
    *link = block->chained;
    unlink_use(set, block);
    return block;
}

void twin_blocks_add(struct twin_blocks *set, const struct block_key *key, int64_t whole_ns) {
    uint64_t name = name_of(key);
    if (set->capacity == 0) return;
    struct twin_block *block = find(set, name);
    if (block) {
        if (whole_ns < block->whole_ns) block->whole_ns = whole_ns;
        unlink_use(set, block);
    } else {
        block = set->count < set->capacity ? &set->blocks[set->count++] : take_oldest(set);
        uint32_t *bucket = bucket_of(set, name);
        *block = (struct twin_block){.key = name, .whole_ns = whole_ns, .chained = *bucket};
        *bucket = (uint32_t)(block - set->blocks) + 1;
    }
    link_use(set, block);
}

bool twin_blocks_has(struct twin_blocks *set, const struct block_key *key, bool use,
                     int64_t now_ns) {
    struct twin_block *block = find(set, name_of(key));
    if (!block || block->whole_ns > now_ns) return false;
    if (!use) return true;
    unlink_use(set, block);
    link_use(set, block);
    return true;
}

bool twin_blocks_knows(const struct twin_blocks *set, const struct block_key *key) {
    return find(set, name_of(key)) != NULL;
}
