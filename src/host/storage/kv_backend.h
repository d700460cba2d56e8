/* SPDX-License-Identifier: Apache-2.0
 * The interface between the KV storage (host/storage/kv_store.h) and the backend that keeps its
 * blocks outside this process. The store has the index, host memory, the queue of writes and every
 * choice; a backend has places for sealed blocks (store_format_seal), and limits how many.
 *
 * A block's location is a segment and a slot. A segment is a set of blocks that are dropped
 * together; the backend decides what it is. Other processes may use the same storage at the same
 * time, so blocks appear and disappear: a backend reports both to its listener.
 *
 * Files are the only backend (host/storage/kv_files_backend.h). Another one implements
 * struct kv_backend_calls and is chosen in kv_store_backend_at (host/storage/kv_store.c).
 */
#pragma once

#include "base/status.h"
#include "host/process/log/log.h"
#include "serving/cache/store_format.h"

#define KV_SEGMENTS_MAX 4096
#define KV_SEGMENTS_MIN 8 /* in the bytes of a storage: so coarse is what is dropped at once */

#define KV_WRITE_BYTES ((size_t)1 << 20) /* a block is written in pieces of so many, at most */

enum kv_io_kind { KV_IO_AUTO, KV_IO_URING, KV_IO_THREADS };

struct kv_io_faults; /* host/storage/kv_files_io.h */

/* Called from within kv_backend_calls, on the caller's thread. */
struct kv_backend_listener {
    /* A block was found, or was found damaged (STORE_ENTRY_DEAD), in a slot of a segment. */
    void (*entry)(void *context, uint32_t segment, const struct store_entry *entry);
    void (*gone)(void *context, uint32_t segment); /* somebody removed it */
    /* One line to the log, as log_say has it. */
    void (*say)(const void *context, enum log_level level, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
    void *context;
};

struct kv_backend_options {
    const char *location;
    struct kv_format format;
    uint64_t bytes_max;     /* of the whole storage; sizes segments */
    uint64_t segment_bytes; /* 0: a default */
    uint32_t depth;         /* transfers under way at most */
    int event;              /* eventfd that is written when transfers end */
    enum kv_io_kind io;
    const struct kv_io_faults *faults; /* tests; may be NULL */
    struct kv_backend_listener listener;
};

/* A transfer. The caller keeps it until `take` returns it. */
struct kv_backend_op {
    bool is_put;
    uint32_t segment, slot;       /* get: where the block is; put: out, where it was put */
    size_t offset, bytes;         /* get: the range of the block, whole pages */
    char *memory;                 /* page-aligned; put: the whole sealed block */
    struct block_key key, parent; /* put */
    uint32_t position;            /* put: blocks before it in its sequence */
    int error;    /* out: 0 or an errno; of a put, ESTALE: somebody removed the place, and the next
                  * put uses another */
    size_t done;  /* out: bytes */
    size_t begun; /* the backend's own, zeros at first */
    uint32_t pieces;
};

struct kv_backend_segment {
    uint64_t bytes;
    uint32_t slot_count; /* slots in use */
    bool movable;        /* it may be dropped */
    int64_t written_ns;  /* by the wall clock, the last time */
};

struct kv_backend_usage {
    uint64_t bytes;
    uint32_t segments;      /* that exist */
    uint32_t segment_count; /* their numbers are below */
};

struct kv_backend {
    const struct kv_backend_calls *calls;
    const char *name; /* for the log */
    const char *io;   /* how it transfers: "io_uring", "threads" */
};

struct kv_check { /* of the blocks of one format, or sums over all */
    char folder[STORE_NAME_BYTES];
    size_t block_bytes;
    uint64_t segments, bytes;
    uint64_t blocks;     /* that are known */
    uint64_t retired;    /* slots that were found damaged before: never read again */
    uint64_t writers;    /* segments that somebody writes to now */
    uint64_t sound;      /* deep: blocks read, and right to the last byte */
    uint64_t damaged;    /* deep: blocks, sidecars and files that are not */
    uint64_t unfinished; /* deep: slots of a write that did not end, or has not yet */
};

/* Called with one line for each thing that is damaged, and for each format once it is done. */
struct kv_check_listener {
    void (*damage)(void *context, const char *line);
    void (*folder)(void *context, const struct kv_check *check);
    void *context;
};

/* One thread calls an open backend. `list`, `drop` and `retire` may block; transfers do not. */
struct kv_backend_calls {
    /* Reports every block that is there. STATUS_INVALID: the location may not be used (others may
     * write to it); the error says why. */
    enum status (*open)(const struct kv_backend_options *options, struct kv_backend **backend_out,
                        struct error *error);
    /* No transfer is under way, and nothing is held. */
    void (*close)(struct kv_backend *backend);

    /* Reports what is new or gone since; `again`: also looks where nothing seems to have changed. */
    void (*list)(struct kv_backend *backend, bool again);
    struct kv_backend_usage (*usage)(const struct kv_backend *backend);
    /* False: no segment has this number. */
    bool (*segment)(const struct kv_backend *backend, uint32_t segment,
                    struct kv_backend_segment *out);

    /* Begins to read a range of a block. */
    void (*get)(struct kv_backend *backend, struct kv_backend_op *op);
    /* Bytes by which the next put may enlarge the storage; 0: none. */
    uint64_t (*growth)(const struct kv_backend *backend);
    /* Begins to write a block. An error: it did not begin. */
    enum status (*put)(struct kv_backend *backend, struct kv_backend_op *op, struct error *error);
    /* Submits what was begun. */
    void (*start)(struct kv_backend *backend);
    /* A transfer that has ended; NULL: none at the moment. */
    struct kv_backend_op *(*take)(struct kv_backend *backend);

    /* A held segment can be read after it is dropped, until it is released as often. */
    void (*hold)(struct kv_backend *backend, uint32_t segment);
    void (*release)(struct kv_backend *backend, uint32_t segment);
    /* Removes a segment. False: somebody writes to it. */
    bool (*drop)(struct kv_backend *backend, uint32_t segment);
    /* The block is damaged: this slot is not read again. */
    void (*retire)(struct kv_backend *backend, uint32_t segment, uint32_t slot,
                   const struct block_key *key);

    /* Bytes of blocks of other formats in the same storage; only their age is known. */
    uint64_t (*other_bytes)(const struct kv_backend *backend);
    /* Removes the oldest of them that were written before; false: there are none. */
    bool (*drop_other)(struct kv_backend *backend, int64_t before_ns);

    /* Without opening, while others may use the storage: sums in *total_out; `deep` reads every
     * byte. STATUS_NOT_FOUND: there is no such storage. STATUS_INVALID: as of open. */
    enum status (*inspect)(const char *location, bool deep,
                           const struct kv_check_listener *listener, struct kv_check *total_out,
                           struct error *error);
    /* Removes what is no use, then segments, oldest first, until at most `bytes` are left. Those that
     * somebody writes to stay. */
    enum status (*shrink)(const char *location, uint64_t bytes, uint64_t *removed_out,
                          uint64_t *left_out, struct error *error);
};
