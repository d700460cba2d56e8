/* SPDX-License-Identifier: Apache-2.0 */
#include "base/due_heap.h"

#include "base/check.h"
#include "base/heap.h"

#define NOT_IN_HEAP UINT32_MAX

size_t due_heap_bytes(uint32_t capacity) {
    const size_t padding = 32; /* two allocations, each aligned to 16 bytes */
    return (size_t)capacity * (sizeof(struct due_entry) + sizeof(uint32_t)) + padding;
}

enum status due_heap_open(struct due_heap *heap, struct arena *arena, uint32_t capacity) {
    struct due_entry *entries = arena_take(arena, capacity * sizeof *entries);
    uint32_t *positions = arena_take(arena, capacity * sizeof *positions);
    if (!entries || !positions) return STATUS_NO_MEMORY;
    memset(positions, 0xFF, capacity * sizeof *positions);
    *heap = (struct due_heap){.entries = entries, .positions = positions, .capacity = capacity};
    return STATUS_OK;
}

static bool due_heap_is_before(const void *context, const void *a, const void *b) {
    const struct due_entry *one = a, *other = b;
    return one->at_ns != other->at_ns ? one->at_ns < other->at_ns : one->number < other->number;
}

static void due_heap_moved(const void *context, const void *item, uint32_t position) {
    ((const struct due_heap *)context)->positions[((const struct due_entry *)item)->number] =
        position;
}

static const struct heap_order due_order = {sizeof(struct due_entry), due_heap_is_before,
                                            due_heap_moved};

/* Stores the entry at `position` and restores the heap order. */
static void put(struct due_heap *heap, uint32_t position, struct due_entry entry) {
    heap->entries[position] = entry;
    heap->positions[entry.number] = position;
    position = heap_sift_up(&due_order, heap, heap->entries, position);
    heap_sift_down(&due_order, heap, heap->entries, heap->count, position);
}

void due_heap_set(struct due_heap *heap, uint32_t number, int64_t at_ns) {
    check(number < heap->capacity);
    uint32_t position = heap->positions[number];
    if (at_ns != DUE_NEVER) {
        put(heap, position == NOT_IN_HEAP ? heap->count++ : position,
            (struct due_entry){at_ns, number});
    } else if (position != NOT_IN_HEAP) {
        heap->positions[number] = NOT_IN_HEAP;
        struct due_entry last = heap->entries[--heap->count];
        if (last.number != number) put(heap, position, last);
    }
}

int64_t due_heap_time(const struct due_heap *heap, uint32_t number) {
    uint32_t position = heap->positions[number];
    return position == NOT_IN_HEAP ? DUE_NEVER : heap->entries[position].at_ns;
}

int64_t due_heap_first(const struct due_heap *heap, uint32_t *number_out) {
    if (heap->count == 0) return DUE_NEVER;
    *number_out = heap->entries[0].number;
    return heap->entries[0].at_ns;
}

void due_heap_audit(const struct due_heap *heap) {
    uint32_t present_count = 0;
    for (uint32_t number = 0; number < heap->capacity; number++)
        present_count += heap->positions[number] != NOT_IN_HEAP;
    check(present_count == heap->count);
    for (uint32_t position = 0; position < heap->count; position++) {
        check(heap->positions[heap->entries[position].number] == position);
        check(!position || due_heap_is_before(heap, &heap->entries[(position - 1) / 2],
                                              &heap->entries[position]));
    }
}
