/* SPDX-License-Identifier: Apache-2.0
 * The KV storage is the lower tier of the prefix cache. It stores whole KV blocks by key, in host
 * memory and in a directory that processes and machines can share. Its own thread does all blocking
 * work; callers only look up blocks and submit requests. The backend (kv_backend.h) defines how
 * blocks are stored in the directory.
 *
 *   find   counts the leading blocks of a sequence that are stored
 *   load   copies blocks into the caller's memory (KV pages), layer by layer. Every slice is
 *          verified before it counts as arrived. A damaged, missing or unreadable block ends the
 *          load before this block, which is then removed from the index
 *   put    copies a block in, and writes it in the background. If the queue is full, or
 *          writing is off and there is no host cache, the block is not stored. With a host cache
 *          and writing off, it is stored in host memory only
 *
 * A failure costs cache hits, but never a correct answer. A full disk or a failed write turns
 * writing off, with one line in the log. Reads continue, and writing is tried again later.
 */
#pragma once

#include "host/storage/kv_backend.h"
#include "host/storage/retain_blocks.h"
#include "serving/cache/store_format.h"

struct kv_store;
struct kv_load;

struct kv_store_options {
    const char *directory;                  /* NULL or "": host memory alone */
    const struct kv_backend_calls *backend; /* tests; NULL: the one for the directory */
    struct kv_format format;
    uint64_t disk_bytes;        /* limit of the whole directory, for all block formats and
                                 * processes together */
    uint64_t host_bytes;        /* host memory for cached blocks; 0: none */
    uint64_t write_queue_bytes; /* limit of blocks that wait to be written; 0: a default */
    uint64_t write_bytes_per_s; /* 0: as fast as the disk */
    uint64_t read_bytes_per_s;  /* 0: as fast as the disk */
    uint64_t segment_bytes;     /* 0: a default */
    struct retain_cost cost;    /* zeros: a default */
    enum kv_io_kind io;
    uint32_t scan_ms;                  /* interval of scans for others' blocks; 0: a default */
    const struct kv_io_faults *faults; /* tests */
    void (*log)(void *context, const char *line); /* NULL: to the log */
    void *log_context;
};

bool kv_store_has_directory(const struct kv_store_options *options);

enum status kv_store_open(const struct kv_store_options *options, struct kv_store **store_out,
                          struct error *error) MUST_USE;

/* Writes the queued blocks, for at most wait_ns_max, completes the loads and ends the thread.
 * Afterwards only kv_store_load_end and kv_store_close may be called. */
void kv_store_stop(struct kv_store *store, int64_t wait_ns_max);

/* Frees the store. If it was not stopped, queued blocks are not written. */
void kv_store_close(struct kv_store *store);

struct kv_found {
    uint32_t blocks; /* number of leading blocks that are stored */
    uint32_t host;   /* how many of them are in host memory */
};

/* Thread-safe; does not block. */
struct kv_found kv_store_find(struct kv_store *store, const struct block_key *keys, uint32_t count);

/* Scans for blocks that other processes have written, and waits for that at most ns_max. */
void kv_store_refresh(struct kv_store *store, int64_t ns_max);

struct kv_load_request {
    const struct block_key *keys; /* [count]; copied */
    void *const *blocks;          /* [count] page-aligned blocks; written to until `done` */
    uint32_t count;
    /* Called once, on the store's thread, after the last write to the blocks; may be NULL. */
    void (*done)(void *context, struct kv_load *load);
    void *context;
};

/* Begins a load. Returns NULL if memory is out. */
struct kv_load *kv_store_load(struct kv_store *store, const struct kv_load_request *request);

struct kv_load_state {
    bool done;
    uint32_t blocks; /* number of leading blocks that are complete or still being loaded */
    uint32_t slices; /* number of leading slices that have arrived of each of these blocks */
    uint32_t host;   /* once done: number of these blocks that came from host memory */
    int64_t ns;      /* once done: duration of the load */
};

struct kv_load_state kv_store_load_get_state(struct kv_load *load);

/* Waits until `slices` leading slices have arrived or the load is done, for at most ns_max. */
struct kv_load_state kv_store_load_wait(struct kv_load *load, uint32_t slices, int64_t ns_max);

/* Waits until the load is done, and frees it. Must not be called from `done`. */
void kv_store_load_end(struct kv_load *load);

enum kv_put_result {
    KV_PUT_QUEUED,         /* `copied` will be called */
    KV_PUT_ALREADY_STORED, /* the block is stored already */
    KV_PUT_FULL,           /* the write queue is full, or nothing can be stored */
};

struct kv_put_request {
    struct block_key key, parent;
    uint32_t position; /* number of blocks before it in its sequence */
    const void *block; /* a full block; read until `copied` */
    /* Called once, on the store's thread. From then on the block may change. */
    void (*copied)(void *context, uint64_t tag);
    void *context;
    uint64_t tag;
};

/* Queues a block to be stored. Thread-safe; does not block. */
enum kv_put_result kv_store_put(struct kv_store *store, const struct kv_put_request *request);

/* Waits until all queued blocks are written or dropped, and the directory was scanned again. */
void kv_store_flush(struct kv_store *store);

struct kv_store_stats {
    uint64_t blocks, host_blocks, disk_blocks; /* stored now */
    uint64_t disk_bytes, segments;
    /* kept: blocks added to the store; dropped: blocks refused, or not written to disk */
    uint64_t kept, dropped;
    uint64_t written_bytes, read_bytes; /* disk */
    uint64_t loaded_disk, loaded_host;  /* blocks */
    uint64_t damaged, io_errors;        /* damaged blocks found; failed transfers */
    uint64_t moved, removed_segments;   /* blocks moved to another segment; segments dropped */
    bool on_disk;    /* false: host memory only, because there is no usable directory */
    int64_t open_ns; /* duration of the first scan of the directory */
    /* false: writing to disk is off for now, or there is no directory in use */
    bool writable;
    const char *io; /* "io_uring", "threads", or "none" */
};

struct kv_store_stats kv_store_get_stats(struct kv_store *store);

/* False if writing is off, or the configured directory is not used. Unlike stats.writable, also
 * true for a store that was configured without a directory. Cheaper than kv_store_get_stats. */
bool kv_store_is_writable(struct kv_store *store);

/* The number of parts in which a load reads each block. A part has one or more layers' slices. */
uint32_t kv_store_load_parts(const struct kv_store *store);

/* The typical sizes of a read and a write in a directory, in bytes. */
void kv_store_transfers(const char *directory, const struct kv_format *format, size_t *read_out,
                        size_t *write_out);

/* The backend for a directory. */
const struct kv_backend_calls *kv_store_backend_at(const char *directory);

/* Inspect and shrink a directory that is not open here, while servers may use it. See `inspect` and
 * `shrink` of struct kv_backend_calls. */
enum status kv_store_check(const char *directory, bool deep,
                           const struct kv_check_listener *listener, struct kv_check *total_out,
                           struct error *error) MUST_USE;
enum status kv_store_shrink(const char *directory, uint64_t bytes, uint64_t *removed_out,
                            uint64_t *left_out, struct error *error) MUST_USE;
