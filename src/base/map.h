/* SPDX-License-Identifier: Apache-2.0
 * A hash map of fixed capacity from keys of three words to small integers, such as from a request
 * id to its slot. All memory is allocated at the start. There is no iteration, so that nothing can
 * depend on the hash order.
 */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/hash.h"

#define MAP_NONE UINT32_MAX

struct map_key {
    uint64_t high, low, extra;
};

struct map {
    struct map_entry {
        struct map_key key;
        uint32_t value; /* MAP_NONE: empty */
    } * entries;
    uint32_t entry_count; /* a power of two, at least twice the capacity */
    uint32_t capacity;
    uint32_t count;
};

/* Arena bytes that map_open needs. */
size_t map_bytes(uint32_t capacity);

/* Returns STATUS_NO_MEMORY if the arena is too small. */
enum status map_open(struct map *map, struct arena *arena, uint32_t capacity) MUST_USE;

/* Adds a new key. The map must not be full, and value must not be MAP_NONE. */
void map_add(struct map *map, struct map_key key, uint32_t value);

/* Removes a key, which must be in the map. */
void map_remove(struct map *map, struct map_key key);

/* ---- lookup ---- */

/* Lookups are inlined so that keys stay in registers. A key passed in memory would be read in
 * larger units than it was written in, which defeats store forwarding: the read would wait for all
 * earlier stores, including those that miss the cache. */

/* The first entry to probe for the key. */
static inline uint32_t map_home(const struct map *map, struct map_key key) {
    uint64_t hash = hash_mix(key.low ^ ((key.high + key.extra) * HASH_STEP));
    return (uint32_t)hash & (map->entry_count - 1);
}

/* The index of the key's entry, or of the empty entry where it would be inserted. */
static inline uint32_t map_place(const struct map *map, struct map_key key) {
    for (uint32_t place = map_home(map, key);; place = (place + 1) & (map->entry_count - 1)) {
        const struct map_entry *entry = &map->entries[place];
        bool equal = entry->key.high == key.high && entry->key.low == key.low &&
                     entry->key.extra == key.extra;
        if (equal || entry->value == MAP_NONE) return place;
    }
}

/* The value of the key; MAP_NONE if the map does not have it. */
static inline uint32_t map_find(const struct map *map, struct map_key key) {
    return map->entries[map_place(map, key)].value;
}

/* Prefetches the key's first entry for a lookup that follows soon. */
static inline void map_prefetch(const struct map *map, struct map_key key) {
    __builtin_prefetch(&map->entries[map_home(map, key)], 1);
}
