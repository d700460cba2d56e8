/* SPDX-License-Identifier: Apache-2.0
 * A hash map of fixed capacity from keys of three words to small numbers (a request's id to its
 * slot). All memory is taken at the start. It offers no walk: nothing may ever depend on hash
 * order.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

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

/* Arena bytes that suffice for map_open. */
size_t map_bytes(uint32_t capacity);

/* STATUS_NO_MEMORY when the arena is too small. */
enum status map_open(struct map *map, struct arena *arena, uint32_t capacity) MUST_USE;

/* The key must be new, the map not full, and value not MAP_NONE. */
void map_add(struct map *map, struct map_key key, uint32_t value);

/* The value that the key has; a new key gets `value`, which is returned: map_find and map_add as one,
 * with the same conditions. */
uint32_t map_find_or_add(struct map *map, struct map_key key, uint32_t value);

/* The key must be there. */
void map_remove(struct map *map, struct map_key key);

/* ---- looking ---- */

/* Looking is done in place, so that a key stays in registers. One that is handed over in memory is
 * read back in larger pieces than it was written in, and that waits for all stores before it, also
 * for those that wait for memory themselves. */

/* The first place of the key's probes. */
static inline uint32_t map_home(const struct map *map, struct map_key key) {
    uint64_t hash = hash_mix(key.low ^ ((key.high + key.extra) * HASH_STEP));
    return (uint32_t)hash & (map->entry_count - 1);
}

/* The key's entry, or the empty one where it belongs. */
static inline uint32_t map_place(const struct map *map, struct map_key key) {
    for (uint32_t place = map_home(map, key);; place = (place + 1) & (map->entry_count - 1)) {
        const struct map_entry *entry = &map->entries[place];
        bool equal = entry->key.high == key.high && entry->key.low == key.low &&
                     entry->key.extra == key.extra;
        if (equal || entry->value == MAP_NONE) return place;
    }
}

/* MAP_NONE if the key is not there. */
static inline uint32_t map_find(const struct map *map, struct map_key key) {
    return map->entries[map_place(map, key)].value;
}

/* The key will be looked for soon. */
static inline void map_prefetch(const struct map *map, struct map_key key) {
    __builtin_prefetch(&map->entries[map_home(map, key)], 1);
}

#endif
