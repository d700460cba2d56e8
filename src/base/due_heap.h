/* SPDX-License-Identifier: Apache-2.0
 * A binary heap of deadlines for numbered items. It stores the position of each number, so that a
 * deadline is set, changed or removed in O(log n) and the first is read in O(1). All memory is
 * allocated at the start. Equal times are ordered by number, so the order depends only on what was
 * set.
 */
#pragma once

#include "base/arena.h"

#define DUE_NEVER INT64_MAX

struct due_heap {
    struct due_entry {
        int64_t at_ns;
        uint32_t number;
    } * entries; /* [count] the first is due first */
    uint32_t
        *positions; /* [capacity] index of each number in `entries`; UINT32_MAX: not in the heap */
    uint32_t count, capacity;
};

/* Arena bytes that due_heap_open needs. */
size_t due_heap_bytes(uint32_t capacity);

/* Opens an empty heap. Returns STATUS_NO_MEMORY if the arena is too small. */
enum status due_heap_open(struct due_heap *heap, struct arena *arena, uint32_t capacity) MUST_USE;

/* Sets the deadline of `number` (< capacity). DUE_NEVER removes it. */
void due_heap_set(struct due_heap *heap, uint32_t number, int64_t at_ns);

/* The deadline of `number`; DUE_NEVER if it has none. */
int64_t due_heap_time(const struct due_heap *heap, uint32_t number);

/* The earliest deadline, and its number. Returns DUE_NEVER if the heap is empty; number_out is then
 * not set. */
int64_t due_heap_first(const struct due_heap *heap, uint32_t *number_out);

/* Checks the heap order and the index of each number. Slow. */
void due_heap_audit(const struct due_heap *heap);
