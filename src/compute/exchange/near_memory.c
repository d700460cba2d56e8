/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/exchange/near_memory.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void *near_memory_map(int file, size_t bytes) {
    int flags = file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, file, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

enum status near_memory_open(struct near_memory *near, size_t bytes, uint32_t rank_count,
                             struct error *error) {
    struct shared_file address;
    int file = shared_file_make(bytes, &address);
    *near = (struct near_memory){.bytes = bytes,
                                 .address = address,
                                 .rank_count = rank_count,
                                 .neighbours = calloc(rank_count, sizeof *near->neighbours),
                                 .own = near_memory_map(file, bytes)};
    if (near->own && near->neighbours) return STATUS_OK;
    near_memory_close(near);
    return error_set(error, STATUS_NO_MEMORY,
                     "cannot map %zu bytes for what comes from %u ranks; lower the tokens per step",
                     bytes, rank_count);
}

void near_memory_close(struct near_memory *near) {
    for (uint32_t rank = 0; rank < near->rank_count && near->neighbours; rank++)
        if (near->neighbours[rank].memory) munmap(near->neighbours[rank].memory, near->bytes);
    if (near->own) munmap(near->own, near->bytes);
    if (near->address.name) close((int)near->address.file);
    free(near->neighbours);
    *near = (struct near_memory){.own = NULL};
}

static char *map_neighbour(const struct near_memory *near, const struct shared_file *address) {
    int file = shared_file_open(address, near->bytes);
    if (file < 0) return NULL;
    char *memory = near_memory_map(file, near->bytes);
    close(file);
    return memory;
}

void near_memory_receive(struct near_memory *near, uint32_t rank, const struct shared_file *address,
                         uint32_t epoch) {
    struct neighbour *neighbour = &near->neighbours[rank];
    neighbour->epoch = epoch;
    if (neighbour->name == address->name) return;
    if (neighbour->memory) munmap(neighbour->memory, near->bytes);
    neighbour->name = address->name;
    neighbour->memory = address->name ? map_neighbour(near, address) : NULL;
}

char *near_memory_of(const struct near_memory *near, uint32_t rank, uint32_t epoch) {
    const struct neighbour *neighbour = &near->neighbours[rank];
    return neighbour->epoch == epoch ? neighbour->memory : NULL;
}
