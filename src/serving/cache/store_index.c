/* SPDX-License-Identifier: Apache-2.0
 * A hash table of block numbers with linear probing, at most two thirds full. A removal shifts
 * later entries back.
 */
#include "serving/cache/store_index.h"

#include <math.h>

#include "base/check.h"

static uint32_t table_count_for(uint32_t capacity) {
    check(capacity > 0 && capacity <= (uint32_t)1 << 29);
    return capacity + capacity / 2 + 8;
}

size_t store_index_bytes(uint32_t capacity) {
    return capacity * sizeof(struct store_block) + table_count_for(capacity) * sizeof(uint32_t) +
           64;
}

enum status store_index_open(struct store_index *index, struct arena *arena, uint32_t capacity) {
    uint32_t table_count = table_count_for(capacity);
    *index = (struct store_index){
        .blocks = arena_take(arena, capacity * sizeof *index->blocks),
        .table = arena_take_zeroed(arena, table_count * sizeof *index->table),
        .table_count = table_count,
        .capacity = capacity,
        .first_free = STORE_NONE,
        .half_life = capacity / 2 + 1,
    };
    return index->blocks && index->table ? STATUS_OK : STATUS_NO_MEMORY;
}

/* Keys are hashes, so their high bits select the slot (by a multiplication instead of a
 * division). */
static uint32_t home_of(const struct store_index *index, struct store_name name) {
    return (uint32_t)(((name.high >> 32) * index->table_count) >> 32);
}

/* The slot of the name, or the empty slot where it would be added. */
static uint32_t store_index_place_of(const struct store_index *index, struct store_name name) {
    uint32_t place = home_of(index, name);
    while (index->table[place]) {
        const struct store_name *other = &index->blocks[index->table[place] - 1].name;
        if (other->high == name.high && other->low == name.low) break;
        if (++place == index->table_count) place = 0;
    }
    return place;
}

uint32_t store_index_find(const struct store_index *index, const struct block_key *key) {
    return index->table[store_index_place_of(index, store_name_of(key))] -
           1; /* 0 - 1 is STORE_NONE */
}

uint32_t store_index_match_prefix(const struct store_index *index, const struct block_key *keys,
                                  uint32_t count, uint32_t *host_out) {
    uint32_t found = 0, host = 0;
    for (; found < count; found++) {
        uint32_t block = store_index_find(index, &keys[found]);
        if (block == STORE_NONE) break;
        host += index->blocks[block].frame != STORE_NONE;
    }
    if (host_out) *host_out = host;
    return found;
}

static uint32_t take_block(struct store_index *index) {
    uint32_t block = index->first_free;
    if (block != STORE_NONE)
        index->first_free = index->blocks[block].last_use;
    else if (index->used_count < index->capacity)
        block = index->used_count++;
    return block;
}

uint32_t store_index_add(struct store_index *index, const struct block_key *key,
                         const struct block_key *parent, uint32_t position) {
    struct store_name name = store_name_of(key);
    uint32_t place = store_index_place_of(index, name);
    if (index->table[place]) return index->table[place] - 1;
    uint32_t block = take_block(index);
    if (block == STORE_NONE) return STORE_NONE;
    index->blocks[block] = (struct store_block){
        .name = name,
        .parent = store_name_of(parent),
        .segment = STORE_NONE,
        .slot = STORE_NONE,
        .frame = STORE_NONE,
        .position = position,
        .last_use = ++index->clock,
        .heat = 1,
    };
    index->table[place] = block + 1;
    index->count++;
    return block;
}

static void store_index_forget(struct store_index *index, uint32_t block) {
    uint32_t count = index->table_count,
             hole = store_index_place_of(index, index->blocks[block].name);
    check(index->table[hole] == block + 1);
    for (uint32_t next = (hole + 1) % count; index->table[next]; next = (next + 1) % count) {
        uint32_t home = home_of(index, index->blocks[index->table[next] - 1].name);
        if ((next + count - home) % count >= (next + count - hole) % count) {
            index->table[hole] = index->table[next];
            hole = next;
        }
    }
    index->table[hole] = 0;
    index->blocks[block].last_use = index->first_free;
    index->first_free = block;
    index->count--;
}

void store_index_set_disk(struct store_index *index, uint32_t block, uint32_t segment,
                          uint32_t slot) {
    index->blocks[block].segment = segment;
    index->blocks[block].slot = slot;
    if (!store_index_used(index, block)) store_index_forget(index, block);
}

void store_index_set_frame(struct store_index *index, uint32_t block, uint32_t frame) {
    index->blocks[block].frame = frame;
    if (!store_index_used(index, block)) store_index_forget(index, block);
}

uint32_t store_index_drop_segment(struct store_index *index, uint32_t segment) {
    uint32_t dropped = 0;
    for (uint32_t block = 0; block < index->used_count; block++) {
        if (index->blocks[block].segment != segment) continue;
        store_index_set_disk(index, block, STORE_NONE, STORE_NONE);
        dropped++;
    }
    return dropped;
}

double store_index_heat(const struct store_index *index, uint32_t block) {
    const struct store_block *entry = &index->blocks[block];
    return (double)entry->heat *
           exp2(-(double)(uint32_t)(index->clock - entry->last_use) / index->half_life);
}

void store_index_touch(struct store_index *index, uint32_t block) {
    index->blocks[block].heat = (float)(store_index_heat(index, block) + 1);
    index->blocks[block].last_use = ++index->clock;
}

void store_index_audit(const struct store_index *index) {
    uint32_t entries = 0, used = 0;
    for (uint32_t place = 0; place < index->table_count; place++) {
        if (!index->table[place]) continue;
        uint32_t block = index->table[place] - 1;
        check(block < index->used_count && store_index_used(index, block));
        check(store_index_place_of(index, index->blocks[block].name) == place);
        entries++;
    }
    for (uint32_t block = 0; block < index->used_count; block++)
        used += store_index_used(index, block);
    check(entries == index->count && used == index->count);
}
