/* SPDX-License-Identifier: Apache-2.0
 * The state that the KV store's source files share. It belongs to the store's thread. Other threads
 * use the functions of kv_store.h. These take the lock to access the index, the two queues, the
 * progress of loads and the statistics. Only the store's thread changes the index, so it reads the
 * index without the lock.
 */
#pragma once

#include <pthread.h>
#include <time.h>

#include "host/process/log/log.h"
#include "host/storage/kv_store.h"
#include "serving/cache/store_index.h"

#define KV_WRITES_MAX 16         /* limit of writes in progress while there are no loads */
#define KV_WRITES_DURING_LOADS 2 /* limit of writes in progress during loads */
#define KV_MOVES_MAX 2           /* limit of reads for moves in progress */

enum kv_frame_state { FRAME_FREE, FRAME_FILLING, FRAME_DIRTY, FRAME_WRITING, FRAME_CLEAN };

struct kv_frame {      /* a block in host memory */
    uint8_t state;     /* enum kv_frame_state */
    bool recent;       /* used since the hand of the clock algorithm last passed */
    bool moved;        /* comes from a segment that was dropped */
    uint32_t block;    /* index of its block; STORE_NONE: not in the index */
    uint32_t pins;     /* number of loads that copy from it */
    uint32_t next;     /* next frame in the write queue or in the list of free frames */
    uint32_t position; /* like the keys, only used by the write */
    struct block_key key, parent;
};

enum kv_task_kind { TASK_LOAD, TASK_WRITE, TASK_MOVE };

struct kv_task {
    struct kv_backend_op op; /* first member: an operation's pointer is cast to its task */
    enum kv_task_kind kind;
    struct kv_load *load;
    uint32_t block, part; /* load: which part is read; move: `block` is the index in kv_moving */
    uint32_t frame;
    uint32_t next; /* next free task */
};

enum kv_piece { PIECE_MISSING, PIECE_UNVERIFIED, PIECE_ARRIVED };

struct kv_load_block {
    struct block_key key;
    void *memory;
    uint32_t segment, slot; /* with from_disk: the source */
    uint32_t frame;         /* the source, or with from_disk a frame that gets a copy */
    bool from_disk, header_sound;
};

struct kv_load {
    struct kv_store *store;
    struct kv_load *next;
    void (*done_call)(void *context, struct kv_load *load);
    void *context;
    int64_t begun_ns;
    uint32_t count, cursor, in_flight;
    uint32_t *part_counts; /* [part_count] number of usable blocks with this part arrived */
    uint8_t *pieces;       /* [count][part_count] enum kv_piece */
    bool begun;
    struct kv_load_state state;    /* protected by the lock */
    struct kv_load_block blocks[]; /* [count] */
};

struct kv_moving {    /* blocks of a dropped segment that are moved to another */
    uint32_t segment; /* STORE_NONE: none */
    uint32_t count, next, in_flight;
    uint32_t *blocks; /* [count] indices of blocks */
    struct store_name *names;
};

struct kv_allowance { /* token bucket of a rate limit */
    double bytes;     /* may be transferred at time `ns`; negative: overdrawn */
    int64_t ns;
};

/* OFF: after a failed write. TRIED: some time later, until the next write succeeds or fails. */
enum kv_writing { WRITING_ON, WRITING_OFF, WRITING_TRIED };

struct kv_store {
    struct kv_store_options options;
    size_t block_bytes;
    uint32_t part_slices, part_count; /* slices per part, parts per block */
    const struct kv_backend_calls *calls;
    struct kv_backend *backend; /* NULL: host memory only */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a condition of timed_wait.h */
    int event;

    struct store_index index; /* the lock protects the members from here to `end_ns` */
    /* [pending_put_capacity] ring of blocks that wait to be copied */
    struct kv_put_request *pending_puts;
    uint32_t pending_put_capacity, pending_put_first, pending_put_count;
    struct kv_load *new_loads, **new_loads_end;
    uint64_t flush_requested, flush_done;
    uint64_t refresh_requested, refresh_done;
    struct kv_store_stats stats;
    uint32_t dirty_count; /* frames that wait to be written or are being written */
    uint8_t writing;      /* enum kv_writing */
    bool finishing;       /* kv_store_stop was called */
    int64_t end_ns;       /* the time limit of kv_store_stop */

    void *index_memory;
    size_t index_bytes;
    struct kv_frame *frames;
    char *frame_memory;
    uint32_t frame_count, free_frame, hand;
    struct kv_task *tasks; /* [calls->depth] */
    uint32_t free_task, free_task_count;
    struct kv_load *loads; /* loads in progress, in order of arrival */
    uint32_t dirty_first, dirty_last;
    uint32_t writes_in_flight;
    bool stopped; /* the thread has ended */
    bool hurry;   /* the store is stopping, so the write rate is not limited */
    struct kv_allowance reads, writes;
    int64_t writing_again_ns, scanned_ns, compacted_ns;
    struct kv_moving moving;
};

static inline char *kv_frame_memory(const struct kv_store *store, uint32_t frame) {
    return store->frame_memory + (size_t)frame * store->block_bytes;
}

/* The range of a block that is one part of a load; part 0 begins with the header page. */
static inline size_t kv_part_offset(const struct kv_store *store, uint32_t part) {
    if (part == 0) return 0;
    uint32_t slice = part * store->part_slices, end = store->options.format.slice_count;
    return kv_format_slice_offset(&store->options.format, slice < end ? slice : end);
}
static inline size_t kv_part_bytes(const struct kv_store *store, uint32_t part) {
    return kv_part_offset(store, part + 1) - kv_part_offset(store, part);
}

/* Logs one line about the store, with the arguments of log_say. */
void kv_store_log(const void *store, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Wakes the thread. */
void kv_store_wake(const struct kv_store *store);

/* Allocates a task for a transfer; NULL: none is free. */
struct kv_task *kv_store_take_task(struct kv_store *store, enum kv_task_kind kind);
void kv_store_free_task(struct kv_store *store, struct kv_task *task);

/* Allocates an empty frame (state FILLING), and may evict a clean one. STORE_NONE: all in use. */
uint32_t kv_store_take_frame(struct kv_store *store);
void kv_store_free_frame(struct kv_store *store, uint32_t index);

/* Removes a block's unusable disk copy from the index. If it is damaged, all processes that share
 * the directory do the same. */
void kv_store_drop_disk_copy(struct kv_store *store, const struct block_key *key, uint32_t segment,
                             uint32_t slot, bool damaged);

/* Refills the bucket at `rate` bytes per second (0: no limit) up to saved_s seconds' worth. */
static inline void kv_allowance_refill(struct kv_allowance *allowance, uint64_t rate,
                                       double saved_s, int64_t now_ns) {
    double most = (double)rate * saved_s > 1 ? (double)rate * saved_s : 1;
    allowance->bytes += (double)rate * (double)(now_ns - allowance->ns) * 1e-9;
    if (allowance->bytes > most) allowance->bytes = most;
    allowance->ns = now_ns;
}
static inline bool kv_allowance_allows(const struct kv_allowance *allowance, uint64_t rate) {
    return rate == 0 || allowance->bytes > 0;
}
/* The time at which the bucket allows transfers again; INT64_MAX if it does now. */
static inline int64_t kv_allowance_wake_ns(const struct kv_allowance *allowance, uint64_t rate) {
    if (kv_allowance_allows(allowance, rate)) return INT64_MAX;
    return allowance->ns + 1000000 + (int64_t)(-allowance->bytes / (double)rate * 1e9);
}
