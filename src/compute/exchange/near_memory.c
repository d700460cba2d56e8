/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/exchange/near_memory.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"

#define NAME "fathom-exchange-%016llx"
#define NAME_BYTES 64
#define NO_FILE UINT32_MAX

static void *map(int file, size_t bytes) {
    int flags = file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, file, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* A file of so many bytes, and what it is called; -1: there can be none. */
static int make_file(size_t bytes, uint64_t *name_out) {
    char name[NAME_BYTES];
    if (getrandom(name_out, sizeof *name_out, 0) != (ssize_t)sizeof *name_out) return -1;
    format_text(name, sizeof name, NAME, (unsigned long long)*name_out);
    int file = memfd_create(name, MFD_CLOEXEC);
    if (file < 0 || (*name_out && ftruncate(file, (off_t)bytes) == 0)) return file;
    close(file);
    return -1;
}

enum status near_memory_open(struct near_memory *near, size_t bytes, uint32_t rank_count,
                             struct error *error) {
    uint64_t name;
    int file = make_file(bytes, &name);
    *near = (struct near_memory){.bytes = bytes,
                                 .address.file = NO_FILE,
                                 .rank_count = rank_count,
                                 .neighbours = calloc(rank_count, sizeof *near->neighbours),
                                 .own = map(file, bytes)};
    if (file >= 0) near->address = (struct near_address){name, (uint32_t)getpid(), (uint32_t)file};
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

/* Looks at what is there before it opens it: a process of this number may be another's. */
static char *map_neighbour(const struct near_memory *near, const struct near_address *address) {
    char path[NAME_BYTES], wanted[NAME_BYTES], found[NAME_BYTES] = "";
    struct stat about;
    format_text(path, sizeof path, "/proc/%u/fd/%u", address->process, address->file);
    format_text(wanted, sizeof wanted, "/memfd:" NAME " (deleted)",
                (unsigned long long)address->name);
    if (readlink(path, found, sizeof found - 1) < 0 || strcmp(found, wanted) != 0) return NULL;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return NULL;
    bool whole = fstat(file, &about) == 0 && (size_t)about.st_size == near->bytes;
    char *memory = whole ? map(file, near->bytes) : NULL;
    close(file);
    return memory;
}

void near_memory_hear(struct near_memory *near, uint32_t rank, const struct near_address *address,
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
