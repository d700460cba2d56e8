/* SPDX-License-Identifier: Apache-2.0 */
#include "base/due_heap.h"

#include "base/check.h"
#include "base/heap.h"

#define NOWHERE UINT32_MAX

size_t due_heap_bytes(uint32_t capacity) {
    return (size_t)capacity * (sizeof(struct due_entry) + sizeof(uint32_t)) + 32;
}

enum status due_heap_open(struct due_heap *heap, struct arena *arena, uint32_t capacity) {
    struct due_entry *entries = arena_take(arena, capacity * sizeof *entries);
    uint32_t *places = arena_take(arena, capacity * sizeof *places);
    if (!entries || !places) return STATUS_NO_MEMORY;
    memset(places, 0xFF, capacity * sizeof *places);
    *heap = (struct due_heap){.entries = entries, .places = places, .capacity = capacity};
    return STATUS_OK;
}

static bool due_heap_is_before(const void *context, const void *a, const void *b) {
    const struct due_entry *one = a, *other = b;
    return one->at_ns != other->at_ns ? one->at_ns < other->at_ns : one->number < other->number;
}

static void due_heap_moved(const void *context, const void *item, uint32_t place) {
    ((const struct due_heap *)context)->places[((const struct due_entry *)item)->number] = place;
}

static const struct heap_order due_order = {sizeof(struct due_entry), due_heap_is_before,
                                            due_heap_moved};

static void put(struct due_heap *heap, uint32_t place, struct due_entry entry) {
    heap->entries[place] = entry;
    heap->places[entry.number] = place;
    place = heap_rise(&due_order, heap, heap->entries, place);
    heap_sink(&due_order, heap, heap->entries, heap->count, place);
}

void due_heap_set(struct due_heap *heap, uint32_t number, int64_t at_ns) {
    check(number < heap->capacity);
    uint32_t place = heap->places[number];
    if (at_ns != DUE_NEVER) {
        put(heap, place == NOWHERE ? heap->count++ : place, (struct due_entry){at_ns, number});
    } else if (place != NOWHERE) {
        heap->places[number] = NOWHERE;
        struct due_entry last = heap->entries[--heap->count];
        if (last.number != number) put(heap, place, last);
    }
}

int64_t due_heap_time(const struct due_heap *heap, uint32_t number) {
    uint32_t place = heap->places[number];
    return place == NOWHERE ? DUE_NEVER : heap->entries[place].at_ns;
}

int64_t due_heap_first(const struct due_heap *heap, uint32_t *number_out) {
    if (heap->count == 0) return DUE_NEVER;
    *number_out = heap->entries[0].number;
    return heap->entries[0].at_ns;
}

void due_heap_audit(const struct due_heap *heap) {
    uint32_t there = 0;
    for (uint32_t number = 0; number < heap->capacity; number++)
        there += heap->places[number] != NOWHERE;
    check(there == heap->count);
    for (uint32_t place = 0; place < heap->count; place++) {
        check(heap->places[heap->entries[place].number] == place);
        check(!place ||
              due_heap_is_before(heap, &heap->entries[(place - 1) / 2], &heap->entries[place]));
    }
}
