/* SPDX-License-Identifier: Apache-2.0
 * The state that the store's source files share. It belongs to the store's thread. Other threads use
 * the functions of kv_store.h, which read behind the lock: the index (which only the thread changes,
 * and may read without the lock), the two queues, the progress of loads, the figures.
 */
#pragma once

#include <pthread.h>
#include <time.h>

#include "host/process/log/log.h"
#include "host/storage/kv_store.h"
#include "serving/cache/store_index.h"

#define KV_TASKS 64        /* transfers under way */
#define KV_WRITES_MAX 16   /* of them, blocks being written while none are loaded */
#define KV_WRITES_BESIDE 2 /* of them, blocks being written while others are loaded */
#define KV_PIECE_BYTES ((size_t)256 << 10) /* one read: whole slices of one block, about as many */
#define KV_MOVES_MAX 2

enum kv_frame_state { FRAME_FREE, FRAME_FILLING, FRAME_DIRTY, FRAME_WRITING, FRAME_CLEAN };

struct kv_frame {      /* a block in host memory */
    uint8_t state;     /* enum kv_frame_state */
    bool recent;       /* used since the clock's hand came by */
    bool moved;        /* out of a segment that was dropped */
    uint32_t block;    /* in the index; STORE_NONE: not (yet) there */
    uint32_t pins;     /* loads that copy from it */
    uint32_t next;     /* in the queue of dirty frames, or of free ones */
    uint32_t position; /* what it is, while it is written */
    struct block_key key, parent;
};

enum kv_task_kind { TASK_LOAD, TASK_WRITE, TASK_MOVE };

struct kv_task {
    struct kv_backend_op op; /* first: a task is found by its operation */
    enum kv_task_kind kind;
    struct kv_load *load;
    uint32_t block, part; /* of the load */
    uint32_t frame;
    uint32_t next; /* free task */
};

enum kv_piece { PIECE_MISSING, PIECE_UNPROVEN, PIECE_ARRIVED };

struct kv_load_block {
    struct block_key key;
    void *memory;
    uint32_t segment, slot; /* source: disk, unless */
    uint32_t frame;         /* source: this frame; or, with from_disk, the one it is copied to */
    bool from_disk, header_sound;
};

struct kv_load {
    struct kv_store *store;
    struct kv_load *next;
    void (*done_call)(void *context, struct kv_load *load);
    void *context;
    int64_t begun_ns;
    uint32_t count, cursor, in_flight;
    uint32_t *part_counts; /* [part_count] usable blocks of which it has arrived */
    uint8_t *pieces;       /* [count][part_count] enum kv_piece */
    bool begun;
    struct kv_load_state state;    /* behind the lock */
    struct kv_load_block blocks[]; /* [count] */
};

struct kv_moving {    /* a segment that was dropped: blocks of it that are written again */
    uint32_t segment; /* STORE_NONE: none */
    uint32_t count, next, in_flight;
    uint32_t *blocks; /* [count] in the index */
    struct store_name *names;
};

struct kv_allowance { /* of a rate that is not to be passed */
    double bytes;     /* that may be transferred now */
    int64_t ns;       /* as of then */
};

enum kv_writing { WRITING_ON, WRITING_OFF, WRITING_TRIED };

struct kv_store {
    struct kv_store_options options;
    size_t block_bytes;
    uint32_t part_slices, part_count; /* so many slices are read at once */
    struct kv_backend *backend;       /* NULL: host memory alone */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int event;

    struct store_index index; /* this and all up to `ending`: behind the lock */
    struct kv_put_ask *keeps; /* [keep_capacity] ring */
    uint32_t keep_capacity, keep_first, keep_count;
    struct kv_load *asked, **asked_end;
    uint64_t settle_asked, settle_done;
    uint64_t refresh_asked, refresh_done;
    struct kv_store_stats stats;
    uint32_t dirty_count; /* frames that wait to be written, or are being */
    uint8_t writing;      /* enum kv_writing */
    bool finishing;       /* the last behind the lock */
    int64_t end_ns;

    void *index_memory;
    size_t index_bytes;
    struct kv_frame *frames;
    char *frame_memory;
    uint32_t frame_count, free_frame, hand;
    struct kv_task tasks[KV_TASKS];
    uint32_t free_task, free_task_count;
    struct kv_load *loads; /* under way, in the order they came */
    uint32_t dirty_first, dirty_last;
    uint32_t writes_in_flight;
    bool stopped; /* the thread has ended */
    bool hurry;   /* it ends: no limit but the disk's */
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

/* One line to the log, as log_say has it, about the store. */
void kv_store_say(const void *store, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The wall clock's time, by which `changed` is waited for. */
struct timespec kv_store_wall_time(int64_t after_ns);

/* Wakes the thread. */
void kv_store_wake(const struct kv_store *store);

/* A free task, not yet given to the io; NULL: none. */
struct kv_task *kv_store_task(struct kv_store *store, enum kv_task_kind kind);
void kv_store_free_task(struct kv_store *store, struct kv_task *task);

/* A frame that holds nothing (state FILLING); STORE_NONE: all are in use. */
uint32_t kv_store_take_frame(struct kv_store *store);
void kv_store_free_frame(struct kv_store *store, uint32_t index);

/* A block's disk copy is no good: forgets it, and, if it is damaged, has all others forget it. */
void kv_store_lose(struct kv_store *store, const struct block_key *key, uint32_t segment,
                   uint32_t slot, bool damaged);

/* Bytes a second, of which so many seconds' worth may be saved up; 0: no limit. */
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
/* When there will be some again. */
static inline int64_t kv_allowance_wake_ns(const struct kv_allowance *allowance, uint64_t rate) {
    if (kv_allowance_allows(allowance, rate)) return INT64_MAX;
    return allowance->ns + 1000000 + (int64_t)(-allowance->bytes / (double)rate * 1e9);
}
