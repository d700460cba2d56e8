/* SPDX-License-Identifier: Apache-2.0
 * Asynchronous reads and writes of the KV storage: io_uring where library and kernel have it, a few
 * threads with pread and pwrite elsewhere. One thread gives operations and takes them back when
 * they are done; an event file becomes readable when some may be. Short transfers are continued here.
 *
 * Tests put misfortunes in between (kv_io_faults): an error, a shorter transfer, the process's end.
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
    int error; /* out: 0, or the errno; EIO where a file ends too early */
    size_t done;
    struct kv_io_op *next; /* private */
};

struct kv_io_faults {
    /* Before each transfer, from any thread: returns 0 or an errno that it then ends with; may
     * lower *bytes (to a multiple of a page). */
    int (*before)(void *context, const struct kv_io_op *op, size_t *bytes);
    void *context;
};

struct kv_io;

/* `event`, an eventfd, is written when operations end. STATUS_UNSUPPORTED: io_uring was asked for
 * and there is none. `faults` may be NULL. */
enum status kv_files_io_open(enum kv_io_kind kind, uint32_t depth, int event,
                             const struct kv_io_faults *faults, struct kv_io **io_out,
                             struct error *error) MUST_USE;

/* At most `depth` are under way (else the caller waits; this is checked). */
void kv_files_io_give(struct kv_io *io, struct kv_io_op *op);

/* Starts what was given since. */
void kv_files_io_start(struct kv_io *io);

/* One that has ended; NULL: none at the moment. */
struct kv_io_op *kv_files_io_take(struct kv_io *io);

/* "io_uring" or "threads". */
const char *kv_files_io_name(const struct kv_io *io);

/* Nothing is under way. */
void kv_files_io_close(struct kv_io *io);

/* At once, on the calling thread, with the same faults: 0 or the errno. */
int kv_files_io_now(const struct kv_io_faults *faults, struct kv_io_op *op);
