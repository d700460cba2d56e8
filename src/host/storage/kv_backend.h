/* SPDX-License-Identifier: Apache-2.0
 * The interface between the KV storage (host/storage/kv_store.h) and the backend that keeps its
 * KV blocks outside this process. The store owns the index, the host memory and the write queue,
 * and makes every decision. A backend stores sealed blocks (store_format_seal) up to a size limit.
 *
 * A block's location is a segment and a slot. A segment is a set of blocks that are dropped
 * together; each backend defines its own. Other processes may use the same storage at the same
 * time, so blocks appear and disappear. The backend reports both to its listener.
 *
 * Files are the only backend (host/storage/kv_files_backend.h). Another one implements
 * struct kv_backend_calls and is chosen in kv_store_backend_at (host/storage/kv_store.c).
 */
#pragma once

#include "base/status.h"
#include "host/process/log/log.h"
#include "serving/cache/store_format.h"

#define KV_SEGMENTS_MAX 4096
#define KV_SEGMENTS_MIN 8 /* a full storage has at least this many, so a drop frees at most 1/8 */

#define KV_WRITE_BYTES ((size_t)1 << 20) /* limit of one write; a larger block needs several */

enum kv_io_kind { KV_IO_AUTO, KV_IO_URING, KV_IO_THREADS };

struct kv_io_faults; /* host/storage/kv_files_io.h */

/* Callbacks from within kv_backend_calls, on the caller's thread. */
struct kv_backend_listener {
    /* A slot of a segment has a block, or a damaged one (STORE_ENTRY_DEAD). */
    void (*entry)(void *context, uint32_t segment, const struct store_entry *entry);
    void (*gone)(void *context, uint32_t segment); /* the segment was removed */
    /* Logs one line, with the arguments of log_say. */
    void (*say)(const void *context, enum log_level level, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
    void *context;
};

struct kv_backend_options {
    const char *location;
    struct kv_format format;
    uint64_t bytes_max;     /* limit of the whole storage; determines the size of segments */
    uint64_t segment_bytes; /* 0: a default */
    int event;              /* eventfd that is written when transfers end */
    enum kv_io_kind io;
    const struct kv_io_faults *faults; /* tests; may be NULL */
    struct kv_backend_listener listener;
};

/* A transfer of one block. The caller keeps it valid until `take` returns it. */
struct kv_backend_op {
    bool is_put;                  /* put: writes a block; get: reads a range of one */
    uint32_t segment, slot;       /* get: location of the block; put: out, its new location */
    size_t offset, bytes;         /* get: range in the block, multiples of a page */
    char *memory;                 /* page-aligned; put: the whole sealed block */
    struct block_key key, parent; /* put only */
    uint32_t position;            /* put only: number of blocks before it in its sequence */
    int error;    /* out: 0 or an errno. A put ends with ESTALE if its segment was removed; the next
                  * put uses another segment */
    size_t done;  /* out: bytes transferred */
    size_t begun; /* private to the backend, as is `pieces`; initialize both with zeros */
    uint32_t pieces;
};

struct kv_backend_segment {
    uint64_t bytes;
    uint32_t slot_count; /* slots in use */
    bool movable;        /* it may be dropped */
    int64_t written_ns;  /* wall clock time of the last write */
};

struct kv_backend_usage {
    uint64_t bytes;
    uint32_t segments;      /* number of existing segments */
    uint32_t segment_count; /* all segment numbers are below this */
};

struct kv_backend {
    const struct kv_backend_calls *calls;
    const char *name; /* for the log */
    const char *io;   /* I/O method: "io_uring" or "threads" */
};

struct kv_check { /* results for the blocks of one format, or sums over all formats */
    char folder[STORE_NAME_BYTES];
    size_t block_bytes;
    uint64_t segments, bytes;
    uint64_t blocks;     /* blocks listed in sidecars */
    uint64_t retired;    /* slots that were marked as damaged earlier, and are never read again */
    uint64_t writers;    /* segments that a process is writing to */
    uint64_t sound;      /* deep: blocks that were read and are entirely correct */
    uint64_t damaged;    /* deep: damaged blocks, sidecars and files */
    uint64_t unfinished; /* deep: slots with a write that is in progress or was aborted */
};

/* `damage` is called with one line for each damaged item, `folder` when a format is done. */
struct kv_check_listener {
    void (*damage)(void *context, const char *line);
    void (*folder)(void *context, const struct kv_check *check);
    void *context;
};

/* One thread calls an open backend. `list`, `drop` and `retire` may block; transfers do not. */
struct kv_backend_calls {
    size_t read_bytes; /* target size of one read, in whole slices */
    uint32_t depth;    /* limit of transfers in progress */

    /* Reports every stored block. Returns STATUS_INVALID with the reason if the location may not be
     * used, because other users may write to it. */
    enum status (*open)(const struct kv_backend_options *options, struct kv_backend **backend_out,
                        struct error *error);
    /* Call without transfers in progress and without held segments. */
    void (*close)(struct kv_backend *backend);

    /* Reports new and removed blocks since the last call. `again`: also scans places that seem to
     * be unchanged. */
    void (*list)(struct kv_backend *backend, bool again);
    struct kv_backend_usage (*usage)(const struct kv_backend *backend);
    /* Returns false if no segment has this number. */
    bool (*segment)(const struct kv_backend *backend, uint32_t segment,
                    struct kv_backend_segment *out);

    /* Prepares to read a range of a block. */
    void (*get)(struct kv_backend *backend, struct kv_backend_op *op);
    /* Bytes by which the next put may enlarge the storage; 0: none. */
    uint64_t (*growth)(const struct kv_backend *backend);
    /* Prepares to write a block. After an error `take` does not return the operation. */
    enum status (*put)(struct kv_backend *backend, struct kv_backend_op *op, struct error *error);
    /* Submits the prepared transfers. */
    void (*start)(struct kv_backend *backend);
    /* Returns a transfer that has ended; NULL if there is none at the moment. */
    struct kv_backend_op *(*take)(struct kv_backend *backend);

    /* A held segment can be read after it is dropped. Holds are counted. */
    void (*hold)(struct kv_backend *backend, uint32_t segment);
    void (*release)(struct kv_backend *backend, uint32_t segment);
    /* Removes a segment. Returns false if a process writes to it. */
    bool (*drop)(struct kv_backend *backend, uint32_t segment);
    /* Marks a slot as damaged, so that no process reads it again. */
    void (*retire)(struct kv_backend *backend, uint32_t segment, uint32_t slot,
                   const struct block_key *key);

    /* Bytes of blocks of other formats in the same storage. Only their age is known. */
    uint64_t (*other_bytes)(const struct kv_backend *backend);
    /* Removes the oldest segment of other formats that no process writes to, if its last write was
     * before `before_ns`. Returns false if there is none. */
    bool (*drop_other)(struct kv_backend *backend, int64_t before_ns);

    /* Inspects a storage that is not open here, while other processes may use it. *total_out has
     * the sums over all formats. `deep` reads every byte. Returns STATUS_NOT_FOUND if there is no
     * such storage, STATUS_INVALID as `open` does. */
    enum status (*inspect)(const char *location, bool deep,
                           const struct kv_check_listener *listener, struct kv_check *total_out,
                           struct error *error);
    /* Removes useless files, then segments, oldest first, until at most `bytes` are left. Segments
     * that a process writes to are kept. */
    enum status (*shrink)(const char *location, uint64_t bytes, uint64_t *removed_out,
                          uint64_t *left_out, struct error *error);
};
