/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/exchange/shared_window.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void *shared_window_mmap(int file, size_t bytes) {
    int flags = file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, file, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

enum status shared_window_open(struct shared_window *window, size_t bytes, uint32_t rank_count,
                               struct error *error) {
    struct shared_file address;
    int file = shared_file_create(bytes, &address);
    *window = (struct shared_window){.bytes = bytes,
                                     .address = address,
                                     .rank_count = rank_count,
                                     .peers = calloc(rank_count, sizeof *window->peers),
                                     .own = shared_window_mmap(file, bytes)};
    if (window->own && window->peers) return STATUS_OK;
    shared_window_close(window);
    return error_set(error, STATUS_NO_MEMORY,
                     "cannot map %zu bytes for the messages of %u ranks; lower the "
                     "maximum number of tokens per step",
                     bytes, rank_count);
}

void shared_window_close(struct shared_window *window) {
    for (uint32_t rank = 0; rank < window->rank_count && window->peers; rank++)
        if (window->peers[rank].memory) munmap(window->peers[rank].memory, window->bytes);
    if (window->own) munmap(window->own, window->bytes);
    if (window->address.name) close((int)window->address.file);
    free(window->peers);
    *window = (struct shared_window){.own = NULL};
}

static char *map_peer(const struct shared_window *window, const struct shared_file *address) {
    int file = shared_file_open(address, window->bytes);
    if (file < 0) return NULL;
    char *memory = shared_window_mmap(file, window->bytes);
    close(file);
    return memory;
}

void shared_window_map(struct shared_window *window, uint32_t rank,
                       const struct shared_file *address, uint32_t epoch) {
    struct peer_window *peer = &window->peers[rank];
    peer->epoch = epoch;
    if (peer->name == address->name) return;
    if (peer->memory) munmap(peer->memory, window->bytes);
    peer->name = address->name;
    peer->memory = address->name ? map_peer(window, address) : NULL;
}

char *shared_window_of(const struct shared_window *window, uint32_t rank, uint32_t epoch) {
    const struct peer_window *peer = &window->peers[rank];
    return peer->epoch == epoch ? peer->memory : NULL;
}
