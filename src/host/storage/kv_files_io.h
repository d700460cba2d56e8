/* SPDX-License-Identifier: Apache-2.0
 * Asynchronous file reads and writes of the KV storage. It uses io_uring if library and kernel
 * support it, and otherwise a few threads with pread and pwrite. One thread submits operations and
 * takes them back when they have ended; an eventfd signals that. Short transfers are continued.
 *
 * Tests inject faults (kv_io_faults): an error, a shorter transfer, the end of the process.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/storage/kv_backend.h"

struct kv_io_op {
    bool write;
    int file;
    char *memory;
    uint64_t offset;
    size_t bytes;
    int error;             /* out: 0 or an errno; EIO if the file ends too early */
    size_t done;           /* out: bytes transferred */
    struct kv_io_op *next; /* private */
};

struct kv_io_faults {
    /* Called before each transfer, on any thread. The transfer fails with the returned errno, if it
     * is not 0. The callback may lower *bytes to a multiple of a page. */
    int (*before)(void *context, const struct kv_io_op *op, size_t *bytes);
    void *context;
};

struct kv_io;

/* `event`, an eventfd, is written when operations end. `faults` may be NULL. Returns
 * STATUS_UNSUPPORTED if `kind` is io_uring and it is not available. */
enum status kv_files_io_open(enum kv_io_kind kind, uint32_t depth, int event,
                             const struct kv_io_faults *faults, struct kv_io **io_out,
                             struct error *error) MUST_USE;

/* Queues an operation. The caller keeps at most `depth` in progress, which is checked. */
void kv_files_io_give(struct kv_io *io, struct kv_io_op *op);

/* Submits the queued operations. */
void kv_files_io_start(struct kv_io *io);

/* Returns an operation that has ended; NULL if there is none at the moment. */
struct kv_io_op *kv_files_io_take(struct kv_io *io);

/* "io_uring" or "threads". */
const char *kv_files_io_name(const struct kv_io *io);

/* Call without operations in progress. */
void kv_files_io_close(struct kv_io *io);

/* Performs an operation synchronously on the calling thread. Returns 0 or an errno. */
int kv_files_io_now(const struct kv_io_faults *faults, struct kv_io_op *op);
