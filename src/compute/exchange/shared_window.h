/* SPDX-License-Identifier: Apache-2.0
 * A memory window that the other ranks of the host can write to. A rank writes its rows and results
 * directly where a rank of the same host reads them; the message only announces them.
 *
 * The window is an anonymous shared file (base/shared_file.h). A rank's messages contain the file's
 * name, and each receiver maps it once. The exchange decides when a rank may write
 * (exchange_ranks.c). Private to src/compute/exchange.
 */
#pragma once

#include "base/shared_file.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Another rank's window, mapped in this process. */
struct peer_window {
    uint64_t name;  /* of the last file announced; 0: none */
    uint32_t epoch; /* the job's epoch of the last announcement */
    char *memory;   /* NULL: this process cannot map it */
};

struct shared_window {
    char *own;
    size_t bytes; /* of each rank's */
    struct shared_file address;
    uint32_t rank_count;
    struct peer_window *peers; /* [rank_count] */
};

/* Opens this rank's window, filled with zeros; pages are allocated at the first touch. If the
 * system has no anonymous shared files the memory is private. */
enum status shared_window_open(struct shared_window *window, size_t bytes, uint32_t rank_count,
                               struct error *error) MUST_USE;
void shared_window_close(struct shared_window *window);

/* Maps the window that a rank of this host announced, unless it is mapped already. An address that
 * does not name such a file is ignored. */
void shared_window_map(struct shared_window *window, uint32_t rank,
                       const struct shared_file *address, uint32_t epoch);

/* The rank's window; NULL: not mapped, or not announced in this epoch. */
char *shared_window_of(const struct shared_window *window, uint32_t rank, uint32_t epoch);
