/* SPDX-License-Identifier: Apache-2.0 */
#include "host/wire/request_set.h"

#include <stdlib.h>

#include "base/check.h"

#define CAPACITY_MIN 64

static struct map_key request_set_key_of(struct request_id id) {
    return (struct map_key){id.high, id.low, id.attempt};
}

static uint32_t find(const struct request_set *set, struct request_id id) {
    return set->capacity ? map_find(&set->places, request_set_key_of(id)) : MAP_NONE;
}

static void grow(struct request_set *set) {
    struct arena arena;
    set->capacity = set->capacity ? 2 * set->capacity : CAPACITY_MIN;
    set->held = realloc(set->held, set->capacity * sizeof *set->held);
    free(set->places_memory);
    set->places_memory = malloc(map_bytes(set->capacity));
    check(set->held && set->places_memory);
    arena_over(&arena, set->places_memory, map_bytes(set->capacity));
    enum status status = map_open(&set->places, &arena, set->capacity);
    check(status == STATUS_OK);
    for (uint32_t i = 0; i < set->count; i++)
        map_add(&set->places, request_set_key_of(set->held[i].id), i);
}

void request_set_add(struct request_set *set, struct request_id id, uint32_t owner) {
    if (find(set, id) != MAP_NONE) return;
    if (set->count == set->capacity) grow(set);
    map_add(&set->places, request_set_key_of(id), set->count);
    set->held[set->count++] = (struct request_held){id, owner};
}

uint32_t request_set_owner(const struct request_set *set, struct request_id id) {
    uint32_t at = find(set, id);
    return at == MAP_NONE ? REQUEST_SET_NOBODY : set->held[at].owner;
}

/* Removes an entry; the last one moves to its position. */
static void remove_at(struct request_set *set, uint32_t at) {
    struct request_held *last = &set->held[--set->count];
    map_remove(&set->places, request_set_key_of(set->held[at].id));
    if (at == set->count) return;
    map_remove(&set->places, request_set_key_of(last->id));
    map_add(&set->places, request_set_key_of(last->id), at);
    set->held[at] = *last;
}

uint32_t request_set_remove(struct request_set *set, struct request_id id) {
    uint32_t at = find(set, id);
    if (at == MAP_NONE) return REQUEST_SET_NOBODY;
    uint32_t owner = set->held[at].owner;
    remove_at(set, at);
    return owner;
}

uint32_t request_set_take(struct request_set *set, uint32_t owner,
                          void (*take)(void *context, struct request_id id), void *context) {
    uint32_t taken = 0;
    for (uint32_t i = set->count; i-- > 0;) { /* entries that move to i were already visited */
        struct request_held held = set->held[i];
        if (held.owner != owner) continue;
        remove_at(set, i);
        take(context, held.id);
        taken++;
    }
    return taken;
}

void request_set_close(struct request_set *set) {
    free(set->held);
    free(set->places_memory);
    *set = (struct request_set){.count = 0};
}
