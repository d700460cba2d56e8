/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/cache/recent_blocks.h"

#include <string.h>

size_t recent_blocks_bytes(uint32_t capacity) {
    return capacity ? map_bytes(capacity) + capacity * sizeof(struct map_key) + 16 : 0;
}

enum status recent_blocks_open(struct recent_blocks *blocks, struct arena *arena,
                               uint32_t capacity) {
    *blocks = (struct recent_blocks){.capacity = capacity};
    if (capacity == 0) return STATUS_OK;
    blocks->ring = arena_take(arena, capacity * sizeof *blocks->ring);
    return blocks->ring ? map_open(&blocks->places, arena, capacity) : STATUS_NO_MEMORY;
}

static struct map_key recent_blocks_words_of(const struct block_key *key) {
    struct map_key words;
    memcpy(&words, key->bytes, sizeof words);
    return words;
}

void recent_blocks_note(struct recent_blocks *blocks, const struct block_key *keys,
                        uint32_t key_count) {
    for (uint32_t i = 0; i < key_count && blocks->capacity; i++) {
        struct map_key key = recent_blocks_words_of(&keys[i]);
        if (map_find(&blocks->places, key) != MAP_NONE) continue;
        if (blocks->count == blocks->capacity)
            map_remove(&blocks->places, blocks->ring[blocks->next]);
        else
            blocks->count++;
        blocks->ring[blocks->next] = key;
        map_add(&blocks->places, key, blocks->next);
        blocks->next = (blocks->next + 1) % blocks->capacity;
    }
}

uint32_t recent_blocks_count(const struct recent_blocks *blocks, const struct block_key *keys,
                             uint32_t key_count) {
    uint32_t count = 0;
    while (blocks->count && count < key_count &&
           map_find(&blocks->places, recent_blocks_words_of(&keys[count])) != MAP_NONE)
        count++;
    return count;
}
