/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include "base/check.h"

#define GROWTH_PART 4

void arena_pool_open(struct pool *pool, void *memory, size_t bytes) {
    size_t chunk_count = bytes / (POOL_CHUNK_BYTES + 1);
    check(chunk_count > 0 && chunk_count < UINT32_MAX);
    *pool = (struct pool){
        .memory = memory,
        .taken = (uint8_t *)memory + chunk_count * POOL_CHUNK_BYTES,
        .chunk_count = (uint32_t)chunk_count,
        .free_count = (uint32_t)chunk_count,
    };
    memset(pool->taken, 0, chunk_count);
}

static void pool_mark(struct pool *pool, uint32_t first, uint32_t count, uint8_t taken) {
    for (uint32_t i = first; i < first + count; i++) {
        check(pool->taken[i] != taken);
        pool->taken[i] = taken;
    }
    if (taken)
        pool->free_count -= count;
    else
        pool->free_count += count;
    if (!taken && first < pool->lowest_free) pool->lowest_free = first;
}

/* The first free run of `count` chunks, or UINT32_MAX. */
static uint32_t pool_find(const struct pool *pool, uint32_t count) {
    const uint8_t *from = pool->taken + pool->lowest_free, *end = pool->taken + pool->chunk_count;
    for (;;) {
        const uint8_t *first = memchr(from, 0, (size_t)(end - from));
        if (!first || count > (size_t)(end - first)) return UINT32_MAX;
        const uint8_t *taken = memchr(first, 1, count);
        if (!taken) return (uint32_t)(first - pool->taken);
        from = taken + 1;
    }
}

void arena_open(struct arena *arena, struct pool *pool) {
    *arena = (struct arena){.pool = pool};
}

void arena_over(struct arena *arena, void *memory, size_t bytes) {
    *arena = (struct arena){.start = memory, .at = memory, .end = (char *)memory + bytes};
}

/* Borrows at least `bytes`. If available, it borrows a fraction of the arena's size (GROWTH_PART),
 * so that the table of runs suffices. */
static bool arena_borrow(struct arena *arena, size_t bytes) {
    struct pool *pool = arena->pool;
    size_t wanted = bytes / POOL_CHUNK_BYTES + (bytes % POOL_CHUNK_BYTES != 0);
    if (!pool || arena->run_count == ARENA_RUNS_MAX || wanted > pool->free_count) return false;
    uint32_t least = (uint32_t)wanted, more = arena->chunk_count / GROWTH_PART;
    uint32_t count = more > least ? more : least;
    uint32_t first = pool_find(pool, count);
    if (first == UINT32_MAX && count > least) first = pool_find(pool, count = least);
    if (first == UINT32_MAX) return false;
    arena->chunk_count += count;
    pool_mark(pool, first, count, 1);
    if (first == pool->lowest_free) pool->lowest_free = first + count;
    arena->runs[arena->run_count].first_chunk = first;
    arena->runs[arena->run_count++].chunk_count = count;
    arena->at = pool->memory + (size_t)first * POOL_CHUNK_BYTES;
    arena->end = arena->at + (size_t)count * POOL_CHUNK_BYTES;
    return true;
}

void *arena_take(struct arena *arena, size_t bytes) {
    size_t padding = (size_t)(-(uintptr_t)arena->at & 15u);
    size_t left = (size_t)(arena->end - arena->at);
    if (bytes == 0) bytes = 1; /* NULL means only that memory is out */
    if (bytes > left || padding > left - bytes) {
        if (!arena_borrow(arena, bytes)) return NULL;
        padding = (size_t)(-(uintptr_t)arena->at & 15u);
        check(bytes + padding <= (size_t)(arena->end - arena->at));
    }
    char *memory = arena->at + padding;
    arena->at = memory + bytes;
    return memory;
}

void *arena_take_lines(struct arena *arena, size_t bytes) {
    size_t more = ARENA_LINE_BYTES - 16;
    char *memory = bytes <= SIZE_MAX - more ? arena_take(arena, bytes + more) : NULL;
    return memory ? memory + (-(uintptr_t)memory & (ARENA_LINE_BYTES - 1)) : NULL;
}

void *arena_take_zeroed(struct arena *arena, size_t bytes) {
    void *memory = arena_take(arena, bytes);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

bool arena_reserve(struct arena *arena, void *array, uint32_t count, uint32_t *capacity,
                   size_t item_bytes) {
    if (count < *capacity) return true;
    uint32_t larger = *capacity ? 2 * *capacity : 32;
    void *items, *memory = arena_take(arena, larger * item_bytes);
    if (!memory) return false;
    memcpy(&items, array, sizeof items);
    if (count) memcpy(memory, items, count * item_bytes);
    memcpy(array, &memory, sizeof memory);
    *capacity = larger;
    return true;
}

struct bytes arena_copy(struct arena *arena, struct bytes text) {
    char *copy = arena_take(arena, text.count + 1);
    if (!copy) return (struct bytes){NULL, 0};
    if (text.count) memcpy(copy, text.data, text.count);
    copy[text.count] = '\0';
    return (struct bytes){copy, text.count};
}

void arena_clear(struct arena *arena) {
    for (uint32_t i = 0; i < arena->run_count; i++)
        pool_mark(arena->pool, arena->runs[i].first_chunk, arena->runs[i].chunk_count, 0);
    arena->run_count = arena->chunk_count = 0;
    arena->at = arena->start;
    if (arena->pool) arena->end = NULL;
}
