/* SPDX-License-Identifier: Apache-2.0
 * Arenas. A `struct pool` is one big block of memory taken at start-up and cut into chunks; an
 * arena borrows chunks from it and gives all of them back at once. Nothing here calls the system
 * after arena_pool_open, so the pure rooms may use it: when the pool is empty, arena_take returns NULL
 * and the caller refuses the request.
 *
 * An arena over plain memory (arena_over) serves tests and one-shot programs.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

#define POOL_CHUNK_BYTES ((size_t)8 << 10)

struct pool {
    char *memory;
    uint8_t *taken; /* [chunk_count] 1 = lent out; lies at the end of the memory */
    uint32_t chunk_count;
    uint32_t free_count;
    uint32_t lowest_free; /* no chunk before it is free: the lowest ones are lent out, so that
                           * memory that was never needed stays untouched */
};

#define ARENA_RUNS_MAX 32 /* enough for 16 MiB in small pieces: each run is a part of the others */

struct arena {
    struct pool *pool; /* NULL: over plain memory */
    char *start;       /* plain memory only */
    char *at;          /* next free byte of the current run */
    char *end;
    uint32_t run_count, chunk_count; /* borrowed */
    struct {
        uint32_t first_chunk, chunk_count;
    } runs[ARENA_RUNS_MAX]; /* chunks borrowed from the pool */
};

/* Cuts `memory` (kept by the caller for the pool's life) into chunks. */
void arena_pool_open(struct pool *pool, void *memory, size_t bytes);

void arena_open(struct arena *arena, struct pool *pool);
void arena_over(struct arena *arena, void *memory, size_t bytes);

/* `bytes` of uninitialised memory aligned to 16; NULL when the pool has no run that large. */
void *arena_take(struct arena *arena, size_t bytes);

/* arena_take, aligned to a cache line, for a value that should touch as few lines as possible: one of 64
 * bytes touches one. Takes up to 48 bytes more. */
#define ARENA_LINE_BYTES ((size_t)64)
void *arena_take_lines(struct arena *arena, size_t bytes);

/* arena_take, zeroed. */
void *arena_take_zeroed(struct arena *arena, size_t bytes);

/* Makes room for one more item of an array that grows in the arena. `array` is the address of the
 * pointer to its items, `count` of which are used. False: the pool is empty. */
bool arena_reserve(struct arena *arena, void *array, uint32_t count, uint32_t *capacity,
                   size_t item_bytes) MUST_USE;

/* A copy of `text` with a terminator behind it; data is NULL when memory is out. */
struct bytes arena_copy(struct arena *arena, struct bytes text);

/* Gives every chunk back (or rewinds plain memory). The arena can be used again. */
void arena_clear(struct arena *arena);

#endif
