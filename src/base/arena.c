/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include "base/check.h"

void pool_open(struct pool *pool, void *memory, size_t bytes) {
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

/* First free run of `count` chunks in [from, to), or UINT32_MAX. */
static uint32_t pool_find(const struct pool *pool, uint32_t from, uint32_t to, uint32_t count) {
    uint32_t run = 0;
    for (uint32_t i = from; i < to; i++) {
        run = pool->taken[i] ? 0 : run + 1;
        if (run == count) return i + 1 - count;
    }
    return UINT32_MAX;
}

void arena_open(struct arena *arena, struct pool *pool) {
    *arena = (struct arena){.pool = pool};
}

void arena_over(struct arena *arena, void *memory, size_t bytes) {
    *arena = (struct arena){.start = memory, .at = memory, .end = (char *)memory + bytes};
}

static bool arena_borrow(struct arena *arena, size_t bytes) {
    struct pool *pool = arena->pool;
    size_t wanted = bytes / POOL_CHUNK_BYTES + (bytes % POOL_CHUNK_BYTES != 0);
    if (!pool || arena->run_count == ARENA_RUNS_MAX || wanted > pool->free_count) return false;
    uint32_t count = (uint32_t)wanted;
    uint32_t first = pool_find(pool, pool->lowest_free, pool->chunk_count, count);
    if (first == UINT32_MAX) return false;
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
    if (bytes == 0) bytes = 1; /* NULL only ever means that memory is out */
    if (bytes > left || padding > left - bytes) {
        if (!arena_borrow(arena, bytes)) return NULL;
        padding = (size_t)(-(uintptr_t)arena->at & 15u);
        check(bytes + padding <= (size_t)(arena->end - arena->at));
    }
    char *memory = arena->at + padding;
    arena->at = memory + bytes;
    return memory;
}

void *arena_take_zeroed(struct arena *arena, size_t bytes) {
    void *memory = arena_take(arena, bytes);
    if (memory) memset(memory, 0, bytes);
    return memory;
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
    arena->run_count = 0;
    arena->at = arena->start;
    if (arena->pool) arena->end = NULL;
}
