/* SPDX-License-Identifier: Apache-2.0
 * When each of many numbered things is due: a binary heap that knows where each number stands, so
 * that a time is set, moved or taken back in the logarithm of how many are due at all, and the
 * first is known at once. All memory is taken at the start. Among equal times the smaller number
 * comes first, so the order hangs on nothing but what was set.
 */
#ifndef BASE_DUE_HEAP_H
#define BASE_DUE_HEAP_H

#include "base/arena.h"

#define DUE_NEVER INT64_MAX

struct due_heap {
    struct due_entry {
        int64_t at_ns;
        uint32_t number;
    } * entries;      /* [count], the first of them due first */
    uint32_t *places; /* [capacity] of each number among the entries; UINT32_MAX: never due */
    uint32_t count, capacity;
};

/* Arena bytes that suffice for due_heap_open. */
size_t due_heap_bytes(uint32_t capacity);

/* Nothing is due. STATUS_NO_MEMORY when the arena is too small. */
enum status due_heap_open(struct due_heap *heap, struct arena *arena, uint32_t capacity) MUST_USE;

/* number < capacity; DUE_NEVER takes it out. */
void due_heap_set(struct due_heap *heap, uint32_t number, int64_t at_ns);

/* DUE_NEVER if it is not in. */
int64_t due_heap_time(const struct due_heap *heap, uint32_t number);

/* The first one's time, and its number; DUE_NEVER if nothing is due (then number_out is not set). */
int64_t due_heap_first(const struct due_heap *heap, uint32_t *number_out);

/* check()s that order and places agree. Slow. */
void due_heap_audit(const struct due_heap *heap);

#endif
