/* SPDX-License-Identifier: Apache-2.0
 * A rank's memory into which other ranks of its host write: what goes to a neighbour is laid where
 * the neighbour reads it, and a message says no more than that it is there.
 *
 * The memory is a file without a place in any directory (base/shared_file.h). A rank's messages
 * name the file to the others, which map it once. The exchange decides who writes when (ranks.c).
 * Private to src/compute/exchange.
 */
#ifndef COMPUTE_EXCHANGE_NEAR_MEMORY_H
#define COMPUTE_EXCHANGE_NEAR_MEMORY_H

#include "base/shared_file.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Another rank's memory, as this process has it. */
struct neighbour {
    uint64_t name;  /* of the last that was heard of; 0: none */
    uint32_t epoch; /* of the job, in which it was last heard of */
    char *memory;   /* NULL: it cannot be written to */
};

struct near_memory {
    char *own;
    size_t bytes; /* of each rank's */
    struct shared_file address;
    uint32_t rank_count;
    struct neighbour *neighbours; /* [rank_count] */
};

/* Zeros; pages are allocated at the first touch. Where the system has no such files the memory is
 * private. */
enum status near_memory_open(struct near_memory *near, size_t bytes, uint32_t rank_count,
                             struct error *error) MUST_USE;
void near_memory_close(struct near_memory *near);

/* A rank of this host says where its memory is; an address that leads elsewhere is left alone. */
void near_memory_receive(struct near_memory *near, uint32_t rank, const struct shared_file *address,
                         uint32_t epoch);

/* The rank's memory; NULL: unknown to this process, or not heard of in this epoch. */
char *near_memory_of(const struct near_memory *near, uint32_t rank, uint32_t epoch);

#endif
