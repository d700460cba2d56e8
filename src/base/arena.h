/* SPDX-License-Identifier: Apache-2.0
 * Arenas. A `struct pool` is one block of memory allocated at start-up and divided into chunks. An
 * arena borrows chunks from the pool and returns all of them at once. Nothing here makes a system
 * call after arena_pool_open, so pure modules may use it. If the pool is empty, arena_take returns
 * NULL and the caller rejects the request.
 *
 * An arena over plain memory (arena_over) serves tests and one-shot programs.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

#define POOL_CHUNK_BYTES ((size_t)8 << 10)

struct pool {
    char *memory;
    uint8_t *taken; /* [chunk_count] 1: borrowed; stored at the end of `memory` */
    uint32_t chunk_count;
    uint32_t free_count;
    /* No chunk before it is free. The lowest chunks are lent first, so that memory that is never
     * needed stays untouched */
    uint32_t lowest_free;
};

/* Enough for 16 MiB in small pieces, because each new run is a fraction of the total. */
#define ARENA_RUNS_MAX 32

struct arena {
    struct pool *pool; /* NULL: plain memory */
    char *start;       /* plain memory only */
    char *at;          /* next free byte of the current run */
    char *end;
    uint32_t run_count, chunk_count; /* borrowed runs and their chunks */
    struct {
        uint32_t first_chunk, chunk_count;
    } runs[ARENA_RUNS_MAX]; /* chunks borrowed from the pool */
};

/* Divides `memory` into chunks. The caller must keep it as long as the pool. */
void arena_pool_open(struct pool *pool, void *memory, size_t bytes);

void arena_open(struct arena *arena, struct pool *pool);
void arena_over(struct arena *arena, void *memory, size_t bytes);

/* Returns `bytes` of uninitialised memory aligned to 16, or NULL if the pool has no run that
 * large. */
void *arena_take(struct arena *arena, size_t bytes);

/* arena_take aligned to a cache line, for a value that should touch as few lines as possible (64
 * bytes touch one line). Uses up to 48 bytes more. */
#define ARENA_LINE_BYTES ((size_t)64)
void *arena_take_lines(struct arena *arena, size_t bytes);

/* arena_take with the memory zeroed. */
void *arena_take_zeroed(struct arena *arena, size_t bytes);

/* Grows an array in the arena if it is full, so that one more item fits. `array` is the address of
 * the pointer to its items; `count` items are used. Returns false if the pool is empty. */
bool arena_reserve(struct arena *arena, void *array, uint32_t count, uint32_t *capacity,
                   size_t item_bytes) MUST_USE;

/* Copies `text` and appends a terminator. `data` is NULL if the arena is out of memory. */
struct bytes arena_copy(struct arena *arena, struct bytes text);

/* Returns all chunks to the pool, or rewinds plain memory. The arena can be used again. */
void arena_clear(struct arena *arena);
