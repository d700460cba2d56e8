/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/cache/prefix_affinity.h"

#include "base/check.h"
#include "base/checksum.h"

#include <string.h>

#define WAYS 4 /* entries in a set; a key belongs to one set */

size_t prefix_affinity_bytes(uint32_t entries) {
    return entries * sizeof(struct prefix_entry) + 16;
}

enum status prefix_affinity_open(struct prefix_affinity *affinity, struct arena *arena,
                                 uint32_t entries) {
    check(entries >= WAYS && (entries & (entries - 1)) == 0);
    *affinity = (struct prefix_affinity){.set_count = entries / WAYS};
    affinity->entries = arena_take_zeroed(arena, entries * sizeof *affinity->entries);
    return affinity->entries ? STATUS_OK : STATUS_NO_MEMORY;
}

void prefix_affinity_keys(uint64_t root, const uint32_t *tokens, uint32_t key_count,
                          uint64_t *keys_out) {
    struct {
        uint64_t before;
        uint32_t tokens[KV_BLOCK_TOKENS];
    } block = {.before = root};
    for (uint32_t i = 0; i < key_count; i++) {
        memcpy(block.tokens, tokens + (size_t)i * KV_BLOCK_TOKENS, sizeof block.tokens);
        keys_out[i] = checksum_of(&block, sizeof block);
        keys_out[i] += keys_out[i] == 0;
        block.before = keys_out[i];
    }
}

void prefix_affinity_welcome(struct prefix_affinity *affinity, uint32_t unit, uint64_t blocks) {
    check(unit < LIMIT_FLEET_UNITS);
    affinity->floors[unit] = affinity->clocks[unit];
    affinity->blocks[unit] = blocks;
}

static struct prefix_entry *set_of(const struct prefix_affinity *affinity, uint64_t key) {
    return affinity->entries + (key & (affinity->set_count - 1)) * WAYS;
}

static struct prefix_entry *find(const struct prefix_affinity *affinity, uint64_t key) {
    struct prefix_entry *set = set_of(affinity, key);
    for (uint32_t i = 0; i < WAYS; i++)
        if (set[i].key == key) return &set[i];
    return NULL;
}

/* Returns the key's entry; a new one replaces the least recently used entry of its set. */
static struct prefix_entry *find_or_add(struct prefix_affinity *affinity, uint64_t key) {
    struct prefix_entry *set = set_of(affinity, key), *oldest = set;
    for (uint32_t i = 0; i < WAYS; i++) {
        if (set[i].key == key) return &set[i];
        if (set[i].used < oldest->used) oldest = &set[i];
    }
    *oldest = (struct prefix_entry){.key = key};
    return oldest;
}

static bool has_still(const struct prefix_affinity *affinity, const struct prefix_trace *trace) {
    return trace->stamp > affinity->floors[trace->unit] &&
           affinity->clocks[trace->unit] - trace->stamp < affinity->blocks[trace->unit];
}

/* Moves the trace of the unit to the front. The traces before its old place move back by one; if it
 * is new, the last trace is dropped. Returns true if the unit already had the block. */
static bool put_first(const struct prefix_affinity *affinity, struct prefix_entry *entry,
                      struct prefix_trace trace) {
    uint32_t at = 0;
    while (at + 1 < PREFIX_AFFINITY_UNITS && entry->traces[at].stamp &&
           entry->traces[at].unit != trace.unit)
        at++;
    bool had = entry->traces[at].unit == trace.unit && has_still(affinity, &entry->traces[at]);
    memmove(entry->traces + 1, entry->traces, at * sizeof *entry->traces);
    entry->traces[0] = trace;
    return had;
}

void prefix_affinity_note(struct prefix_affinity *affinity, uint32_t unit, const uint64_t *keys,
                          uint32_t key_count) {
    check(unit < LIMIT_FLEET_UNITS);
    uint64_t now = affinity->clocks[unit] + 1, brought = 0;
    affinity->used++;
    for (uint32_t i = 0; i < key_count; i++) {
        struct prefix_entry *entry = find_or_add(affinity, keys[i]);
        entry->used = affinity->used;
        brought += !put_first(affinity, entry, (struct prefix_trace){now, unit});
    }
    affinity->clocks[unit] = now + brought;
}

/* A unit that has a block also has those before it, because they arrived together and are used as
 * often. The table may have lost their traces, if many other units have received them since. */
uint32_t prefix_affinity_find(const struct prefix_affinity *affinity, const uint64_t *keys,
                              uint32_t key_count, uint32_t *blocks_out) {
    uint32_t depth = 0;
    memset(blocks_out, 0, LIMIT_FLEET_UNITS * sizeof *blocks_out);
    for (; depth < key_count; depth++) {
        const struct prefix_entry *entry = find(affinity, keys[depth]);
        if (!entry) break;
        for (uint32_t i = 0; i < PREFIX_AFFINITY_UNITS && entry->traces[i].stamp; i++) {
            if (has_still(affinity, &entry->traces[i]))
                blocks_out[entry->traces[i].unit] = depth + 1;
        }
    }
    return depth;
}
