/* SPDX-License-Identifier: Apache-2.0
 * The KV cache storage: whole blocks by key, in host memory and in a directory that processes and
 * machines share. Its own thread does everything that could wait; callers only look up and ask.
 * Only its backend (kv_backend.h) knows how the directory keeps blocks.
 *
 *   find   how many leading blocks of a sequence are there
 *   load   copies blocks into memory of the caller (KV pages), layer after layer: every slice is
 *          checked before it counts as arrived. A damaged, missing or unreadable block ends the
 *          load before it, is forgotten, and never comes back
 *   keep   copies a block in, then writes it behind the caller's back; when too much waits to be
 *          written, or nothing can be, the block is not stored, which is all that happens
 *
 * Nothing here is needed for a right answer: each misfortune costs hits. Disk full or failing
 * writes turn writing off with one line in the log, and it is tried again later; reads go on.
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
    uint64_t disk_bytes;        /* at most, of the whole directory: all block formats, by all
                                 * processes together */
    uint64_t host_bytes;        /* of blocks that stay in memory; 0: none do */
    uint64_t write_queue_bytes; /* waiting to be written; 0: a default */
    uint64_t write_bytes_per_s; /* 0: as fast as the disk */
    uint64_t read_bytes_per_s;  /* 0: as fast as the disk */
    uint64_t segment_bytes;     /* 0: a default */
    struct retain_cost cost;    /* zeros: a default */
    enum kv_io_kind io;
    uint32_t scan_ms;                  /* how soon others' blocks are noticed; 0: a default */
    const struct kv_io_faults *faults; /* tests */
    void (*log)(void *context, const char *line); /* NULL: to the log */
    void *log_context;
};

bool kv_store_has_directory(const struct kv_store_options *options);

enum status kv_store_open(const struct kv_store_options *options, struct kv_store **store_out,
                          struct error *error) MUST_USE;

/* Writes what waits to be written (for at most wait_ns_max), ends loads; nothing may be asked any
 * more but kv_store_load_end. */
void kv_store_stop(struct kv_store *store, int64_t wait_ns_max);

/* Gives everything back; stops it, if need be, without waiting for writes. */
void kv_store_close(struct kv_store *store);

struct kv_found {
    uint32_t blocks; /* leading ones that are there */
    uint32_t host;   /* of those, in memory */
};

/* From any thread, at once. */
struct kv_found kv_store_find(struct kv_store *store, const struct block_key *keys, uint32_t count);

/* Looks now for what other processes have written, and waits for that at most so long. */
void kv_store_refresh(struct kv_store *store, int64_t ns_max);

struct kv_load_ask {
    const struct block_key *keys; /* [count]; copied */
    void *const *blocks;          /* [count] whole blocks, page-aligned; written until it is done */
    uint32_t count;
    /* On the store's thread, once, when nothing is written any more; may be NULL. */
    void (*done)(void *context, struct kv_load *load);
    void *context;
};

/* NULL: no memory. */
struct kv_load *kv_store_load(struct kv_store *store, const struct kv_load_ask *ask);

struct kv_load_state {
    bool done;
    uint32_t blocks; /* leading ones that are whole or may still become so */
    uint32_t slices; /* leading slices that have arrived of all of those */
    uint32_t host;   /* of the blocks: from memory */
    int64_t ns;      /* that it took, once done */
};

struct kv_load_state kv_store_load_look(struct kv_load *load);

/* Waits until so many leading slices have arrived, or it is done, or for ns_max. */
struct kv_load_state kv_store_load_wait(struct kv_load *load, uint32_t slices, int64_t ns_max);

/* Waits until it is done, and frees it. Not from `done`. */
void kv_store_load_end(struct kv_load *load);

enum kv_put_answer {
    KV_PUT_TAKEN, /* `copied` will be called */
    KV_PUT_KNOWN, /* it has it */
    KV_PUT_FULL,  /* too much waits already, or nothing can be stored */
};

struct kv_put_ask {
    struct block_key key, parent;
    uint32_t position;
    const void *block; /* whole, all its tokens; read until `copied` */
    /* On the store's thread, once; the block may change from then on. */
    void (*copied)(void *context, uint64_t tag);
    void *context;
    uint64_t tag;
};

enum kv_put_answer kv_store_put(struct kv_store *store, const struct kv_put_ask *ask);

/* Waits until everything taken so far is written (or will not be) and the directory was looked
 * through anew. */
void kv_store_settle(struct kv_store *store);

struct kv_store_stats {
    uint64_t blocks, host_blocks, disk_blocks; /* now */
    uint64_t disk_bytes, segments;
    uint64_t kept, dropped;             /* blocks: stored, not stored for want of room */
    uint64_t written_bytes, read_bytes; /* disk */
    uint64_t loaded_disk, loaded_host;  /* blocks */
    uint64_t damaged, io_errors;        /* blocks found damaged; failed transfers */
    uint64_t moved, removed_segments;   /* blocks written again; segments given up */
    bool on_disk;    /* false: host memory alone, also for want of a directory that may be used */
    int64_t open_ns; /* reading the directory at the start */
    bool writable;   /* false: off for now */
    const char *io;  /* "io_uring", "threads" */
};

struct kv_store_stats kv_store_look(struct kv_store *store);

/* Is what it keeps written to the directory that it was given, if it was given one? Cheaper than the
 * figures. */
bool kv_store_is_writable(struct kv_store *store);

/* Parts in which the layers of a load arrive. */
uint32_t kv_store_load_parts(const struct kv_store *store);

/* The sizes in bytes of a usual read and write. */
void kv_store_transfers(const struct kv_format *format, size_t *read_out, size_t *write_out);

/* The backend for a directory. */
const struct kv_backend_calls *kv_store_backend_at(const char *directory);

/* A directory seen from outside, while servers may use it: see `inspect` and `shrink` of
 * struct kv_backend_calls. */
enum status kv_store_check(const char *directory, bool deep,
                           const struct kv_check_listener *listener, struct kv_check *total_out,
                           struct error *error) MUST_USE;
enum status kv_store_shrink(const char *directory, uint64_t bytes, uint64_t *removed_out,
                            uint64_t *left_out, struct error *error) MUST_USE;
