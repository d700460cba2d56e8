/* SPDX-License-Identifier: Apache-2.0
 * Linear probing, at most half full; removal shifts later entries back, so there are no tombstones
 * and lookups never slow down with age.
 */
#include "base/map.h"

#include "base/check.h"

static uint32_t entry_count_for(uint32_t capacity) {
    check(capacity > 0 && capacity <= (uint32_t)1 << 30);
    uint32_t count = 2;
    while (count < 2 * capacity)
        count *= 2;
    return count;
}

size_t map_bytes(uint32_t capacity) {
    return entry_count_for(capacity) * sizeof(struct map_entry) + 16;
}

enum status map_open(struct map *map, struct arena *arena, uint32_t capacity) {
    uint32_t count = entry_count_for(capacity);
    struct map_entry *entries = arena_take(arena, count * sizeof *entries);
    if (!entries) return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        entries[i].value = MAP_NONE;
    *map = (struct map){.entries = entries, .entry_count = count, .capacity = capacity};
    return STATUS_OK;
}

/* Where the key would like to stand (mixing as in SplitMix64's finalizer). */
static uint32_t map_home(const struct map *map, struct map_key key) {
    uint64_t mixed = key.low ^ ((key.high + key.extra) * 0x9E3779B97F4A7C15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)(mixed ^ (mixed >> 31)) & (map->entry_count - 1);
}

static bool map_key_equal(struct map_key a, struct map_key b) {
    return a.high == b.high && a.low == b.low && a.extra == b.extra;
}

/* The key's entry, or the empty one where it belongs. */
static uint32_t map_place(const struct map *map, struct map_key key) {
    uint32_t place = map_home(map, key);
    for (;;) {
        const struct map_entry *entry = &map->entries[place];
        if (entry->value == MAP_NONE || map_key_equal(entry->key, key)) return place;
        place = (place + 1) & (map->entry_count - 1);
    }
}

uint32_t map_find(const struct map *map, struct map_key key) {
    return map->entries[map_place(map, key)].value;
}

static void fill(struct map *map, struct map_entry *entry, struct map_key key, uint32_t value) {
    check(entry->value == MAP_NONE && value != MAP_NONE && map->count < map->capacity);
    *entry = (struct map_entry){key, value};
    map->count++;
}

void map_add(struct map *map, struct map_key key, uint32_t value) {
    fill(map, &map->entries[map_place(map, key)], key, value);
}

uint32_t map_find_or_add(struct map *map, struct map_key key, uint32_t value) {
    struct map_entry *entry = &map->entries[map_place(map, key)];
    if (entry->value == MAP_NONE) fill(map, entry, key, value);
    return entry->value;
}

void map_prefetch(const struct map *map, struct map_key key) {
    __builtin_prefetch(&map->entries[map_home(map, key)], 1);
}

void map_remove(struct map *map, struct map_key key) {
    uint32_t mask = map->entry_count - 1, hole = map_place(map, key);
    check(map->entries[hole].value != MAP_NONE);
    for (uint32_t next = (hole + 1) & mask; map->entries[next].value != MAP_NONE;
         next = (next + 1) & mask) {
        uint32_t home = map_home(map, map->entries[next].key);
        if (((next - home) & mask) >= ((next - hole) & mask)) {
            map->entries[hole] = map->entries[next];
            hole = next;
        }
    }
    map->entries[hole].value = MAP_NONE;
    map->count--;
}
