/* SPDX-License-Identifier: Apache-2.0
 * Linear probing, at most half full. Removal shifts later entries back, so there are no tombstones
 * and lookups do not slow down.
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
    return entry_count_for(capacity) * sizeof(struct map_entry) + ARENA_LINE_BYTES;
}

enum status map_open(struct map *map, struct arena *arena, uint32_t capacity) {
    uint32_t count = entry_count_for(capacity);
    struct map_entry *entries = arena_take_lines(arena, count * sizeof *entries);
    if (!entries) return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        entries[i].value = MAP_NONE;
    *map = (struct map){.entries = entries, .entry_count = count, .capacity = capacity};
    return STATUS_OK;
}

static void fill(struct map *map, struct map_entry *entry, struct map_key key, uint32_t value) {
    check(entry->value == MAP_NONE && value != MAP_NONE && map->count < map->capacity);
    *entry = (struct map_entry){key, value};
    map->count++;
}

void map_add(struct map *map, struct map_key key, uint32_t value) {
    fill(map, &map->entries[map_place(map, key)], key, value);
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
