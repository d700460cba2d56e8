/* SPDX-License-Identifier: Apache-2.0
 * A binary heap in the caller's array, for items of any size. The first item in the caller's order
 * is at index 0. The functions are inline, so that a constant order is compiled into each caller.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HEAP_ITEM_BYTES_MAX 64

struct heap_order {
    size_t bytes; /* bytes of an item */
    bool (*is_before)(const void *context, const void *a, const void *b);
    void (*moved)(const void *context, const void *item, uint32_t position); /* or NULL */
};

#define HEAP_INLINE static inline __attribute__((always_inline))

HEAP_INLINE void *heap_at(const struct heap_order *order, void *items, uint32_t position) {
    return (char *)items + position * order->bytes;
}

HEAP_INLINE void heap_swap(const struct heap_order *order, const void *context, void *items,
                           uint32_t a, uint32_t b) {
    char kept[HEAP_ITEM_BYTES_MAX];
    memcpy(kept, heap_at(order, items, a), order->bytes);
    memcpy(heap_at(order, items, a), heap_at(order, items, b), order->bytes);
    memcpy(heap_at(order, items, b), kept, order->bytes);
    if (!order->moved) return;
    order->moved(context, heap_at(order, items, a), a);
    order->moved(context, heap_at(order, items, b), b);
}

/* Moves the item at `position` up to its position, and returns that position. */
HEAP_INLINE uint32_t heap_sift_up(const struct heap_order *order, const void *context, void *items,
                                  uint32_t position) {
    for (uint32_t above; position; position = above) {
        above = (position - 1) / 2;
        if (!order->is_before(context, heap_at(order, items, position),
                              heap_at(order, items, above)))
            break;
        heap_swap(order, context, items, position, above);
    }
    return position;
}

/* Moves the item at `position` down to its position. */
HEAP_INLINE void heap_sift_down(const struct heap_order *order, const void *context, void *items,
                                uint32_t count, uint32_t position) {
    for (uint32_t below; (below = 2 * position + 1) < count; position = below) {
        if (below + 1 < count && order->is_before(context, heap_at(order, items, below + 1),
                                                  heap_at(order, items, below)))
            below++;
        if (!order->is_before(context, heap_at(order, items, below),
                              heap_at(order, items, position)))
            break;
        heap_swap(order, context, items, position, below);
    }
}

/* Removes the first of `count` > 0 items from the heap and stores it at index count - 1. */
HEAP_INLINE void heap_pop(const struct heap_order *order, const void *context, void *items,
                          uint32_t count) {
    heap_swap(order, context, items, 0, count - 1);
    heap_sift_down(order, context, items, count - 1, 0);
}

/* Orders an array as a heap. */
HEAP_INLINE void heap_make(const struct heap_order *order, const void *context, void *items,
                           uint32_t count) {
    for (uint32_t position = count / 2; position-- > 0;)
        heap_sift_down(order, context, items, count, position);
}

/* Moves the first `wanted` items in the order to the end of the array, in reverse order. If all are
 * wanted, this sorts the array in reverse. */
HEAP_INLINE void heap_choose(const struct heap_order *order, const void *context, void *items,
                             uint32_t count, uint32_t wanted) {
    heap_make(order, context, items, count);
    for (uint32_t left = count; left > count - wanted; left--)
        heap_pop(order, context, items, left);
}
