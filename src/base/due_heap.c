/* SPDX-License-Identifier: Apache-2.0 */
#include "base/due_heap.h"

#include "base/check.h"

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

static bool due_heap_is_before(struct due_entry a, struct due_entry b) {
    return a.at_ns != b.at_ns ? a.at_ns < b.at_ns : a.number < b.number;
}

static void put(struct due_heap *heap, uint32_t place, struct due_entry entry) {
    heap->entries[place] = entry;
    heap->places[entry.number] = place;
}

/* Up from a place where it may be due before those above. */
static uint32_t rise(struct due_heap *heap, uint32_t place, struct due_entry entry) {
    while (place && due_heap_is_before(entry, heap->entries[(place - 1) / 2])) {
        put(heap, place, heap->entries[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    put(heap, place, entry);
    return place;
}

static void sink(struct due_heap *heap, uint32_t place, struct due_entry entry) {
    for (;;) {
        uint32_t below = 2 * place + 1;
        if (below >= heap->count) break;
        if (below + 1 < heap->count &&
            due_heap_is_before(heap->entries[below + 1], heap->entries[below]))
            below++;
        if (due_heap_is_before(entry, heap->entries[below])) break;
        put(heap, place, heap->entries[below]);
        place = below;
    }
    put(heap, place, entry);
}

void due_heap_set(struct due_heap *heap, uint32_t number, int64_t at_ns) {
    check(number < heap->capacity);
    uint32_t place = heap->places[number];
    struct due_entry entry = {at_ns, number};
    if (at_ns != DUE_NEVER) {
        place = rise(heap, place == NOWHERE ? heap->count++ : place, entry);
        sink(heap, place, entry);
    } else if (place != NOWHERE) {
        heap->places[number] = NOWHERE;
        struct due_entry last = heap->entries[--heap->count];
        if (last.number == number) return;
        sink(heap, rise(heap, place, last), last);
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
        check(!place || due_heap_is_before(heap->entries[(place - 1) / 2], heap->entries[place]));
    }
}
