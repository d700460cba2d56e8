/* SPDX-License-Identifier: Apache-2.0
 * The store's thread, and how the store opens and stops. One eventfd wakes the thread when
 * transfers have ended, for new requests, and to stop. kv_store_load.c has loads, kv_store_write.c
 * has writes.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "host/process/timed_wait.h"
#include "host/storage/kv_store_load.h"
#include "host/storage/kv_store_write.h"

#define SCAN_MS 500
#define QUEUE_BYTES ((uint64_t)64 << 20)
#define QUEUE_BLOCKS_MIN 8
#define BLOCKS_MAX ((uint64_t)1 << 28)

/* ---- blocks of other processes ---- */

static void kv_store_thread_note_entry(void *context, uint32_t segment,
                                       const struct store_entry *entry) {
    struct kv_store *store = context;
    pthread_mutex_lock(&store->lock);
    uint32_t block = store_index_find(&store->index, &entry->key);
    if (entry->kind == STORE_ENTRY_BLOCK) {
        if (block == STORE_NONE)
            block = store_index_add(&store->index, &entry->key, &entry->parent, entry->position);
        if (block != STORE_NONE && store->index.blocks[block].segment == STORE_NONE)
            store_index_set_disk(&store->index, block, segment, entry->slot);
    } else if (block != STORE_NONE && store->index.blocks[block].segment == segment &&
               store->index.blocks[block].slot == entry->slot)
        store_index_set_disk(&store->index, block, STORE_NONE, STORE_NONE);
    pthread_mutex_unlock(&store->lock);
}

static void note_gone(void *context, uint32_t segment) {
    struct kv_store *store = context;
    pthread_mutex_lock(&store->lock);
    store_index_drop_segment(&store->index, segment);
    pthread_mutex_unlock(&store->lock);
}

static void list_blocks(struct kv_store *store, bool again, int64_t now_ns) {
    if (store->backend) store->backend->calls->list(store->backend, again);
    store->scanned_ns = now_ns;
}

/* ---- the thread ---- */

static void end_operations(struct kv_store *store) {
    for (struct kv_backend_op *op;
         store->backend && (op = store->backend->calls->take(store->backend));) {
        struct kv_task *task = (struct kv_task *)op;
        switch (task->kind) {
        case TASK_LOAD:
            kv_store_load_end_read(store, task);
            break;
        case TASK_WRITE:
            kv_store_write_end_write(store, task);
            break;
        case TASK_MOVE:
            kv_store_write_end_move(store, task);
            break;
        }
        kv_store_free_task(store, task);
    }
}

static bool idle(struct kv_store *store) {
    pthread_mutex_lock(&store->lock);
    bool idle = !store->pending_put_count && !store->dirty_count && !store->loads &&
                !store->new_loads && store->moving.segment == STORE_NONE;
    pthread_mutex_unlock(&store->lock);
    return idle;
}

static void perform_refresh(struct kv_store *store, int64_t now_ns) {
    pthread_mutex_lock(&store->lock);
    uint64_t request_number = store->refresh_requested;
    bool wanted = request_number > store->refresh_done;
    pthread_mutex_unlock(&store->lock);
    if (!wanted) return;
    list_blocks(store, false, now_ns);
    pthread_mutex_lock(&store->lock);
    store->refresh_done = request_number;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->lock);
}

static void kv_store_thread_finish_flush(struct kv_store *store, int64_t now_ns) {
    pthread_mutex_lock(&store->lock);
    uint64_t request_number = store->flush_requested;
    bool wanted = request_number > store->flush_done;
    pthread_mutex_unlock(&store->lock);
    if (!wanted || !idle(store)) return;
    list_blocks(store, true, now_ns);
    pthread_mutex_lock(&store->lock);
    store->flush_done = request_number;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->lock);
}

static void update_stats(struct kv_store *store) {
    struct kv_backend_usage usage = {0};
    if (store->backend) usage = store->backend->calls->usage(store->backend);
    pthread_mutex_lock(&store->lock);
    store->stats.disk_bytes = usage.bytes;
    store->stats.segments = usage.segments;
    pthread_mutex_unlock(&store->lock);
}

/* Waits for an event, or until a scan, a read or a write is due. */
static void kv_store_thread_wait_event(struct kv_store *store, bool more, int64_t now_ns) {
    int64_t scan_ns = (int64_t)store->options.scan_ms * 1000000;
    int64_t until = store->scanned_ns + scan_ns, write = kv_store_write_wake_ns(store);
    int64_t read_ns = kv_store_load_read_wake_ns(store);
    if (write < until) until = write;
    if (read_ns < until) until = read_ns;
    int64_t ms = more || until <= now_ns ? 0 : (until - now_ns + 999999) / 1000000;
    struct pollfd events = {.fd = store->event, .events = POLLIN};
    uint64_t count;
    if (poll(&events, 1, (int)ms) > 0 && read(store->event, &count, sizeof count) < 0) return;
}

static bool kv_store_thread_may_end(struct kv_store *store, int64_t now_ns) {
    pthread_mutex_lock(&store->lock);
    bool finishing = store->finishing, late = now_ns > store->end_ns;
    pthread_mutex_unlock(&store->lock);
    if (!finishing) return false;
    if (idle(store)) return true;
    return late && !store->loads && store->free_task_count == store->calls->depth;
}

static void *run(void *context) {
    struct kv_store *store = context;
    for (;;) {
        int64_t now_ns = clock_now_ns();
        end_operations(store);
        perform_refresh(store, now_ns);
        kv_store_load_begin_loads(store);
        bool more = kv_store_load_feed_loads(store);
        pthread_mutex_lock(&store->lock);
        bool late = store->finishing && now_ns > store->end_ns;
        store->hurry = store->finishing;
        pthread_mutex_unlock(&store->lock);
        if (!late) {
            if (kv_store_write_take_puts(store)) more = true;
            if (store->backend) kv_store_write_feed_moves(store);
            if (store->backend) kv_store_write_feed_writes(store, now_ns);
        }
        if (store->backend) store->backend->calls->start(store->backend);
        if (now_ns - store->scanned_ns >= (int64_t)store->options.scan_ms * 1000000) {
            list_blocks(store, false, now_ns);
            if (store->backend) kv_store_write_compact(store, now_ns);
        }
        update_stats(store);
        kv_store_thread_finish_flush(store, now_ns);
        if (kv_store_thread_may_end(store, now_ns)) return NULL;
        kv_store_thread_wait_event(store, more, now_ns);
    }
}

static uint32_t slices_of_read(const struct kv_backend_calls *calls,
                               const struct kv_format *format) {
    size_t slices = calls->read_bytes / kv_format_slice_bytes(format);
    if (slices > format->slice_count) slices = format->slice_count;
    return slices ? (uint32_t)slices : 1;
}

void kv_store_transfers(const char *directory, const struct kv_format *format, size_t *read_out,
                        size_t *write_out) {
    *read_out =
        slices_of_read(kv_store_backend_at(directory), format) * kv_format_slice_bytes(format);
    size_t block = kv_format_block_bytes(format);
    *write_out = block < KV_WRITE_BYTES ? block : KV_WRITE_BYTES;
}

/* ---- opening ---- */

static enum status set_sizes(struct kv_store *store, struct error *error) {
    struct kv_store_options *o = &store->options;
    size_t block = store->block_bytes;
    bool disk = kv_store_has_directory(o);
    if (disk && o->disk_bytes < KV_SEGMENTS_MIN * (block + STORE_PAGE_BYTES))
        return error_set(error, STATUS_INVALID,
                         "%.300s: %llu bytes are too few for a KV storage; expected at least %d "
                         "blocks of %zu bytes (--kv-disk)",
                         o->directory, (unsigned long long)o->disk_bytes, KV_SEGMENTS_MIN, block);
    if (!o->write_queue_bytes) o->write_queue_bytes = QUEUE_BYTES;
    uint64_t queue = o->write_queue_bytes / block;
    if (queue < QUEUE_BLOCKS_MIN) queue = QUEUE_BLOCKS_MIN;
    if (queue > 1 << 20) queue = 1 << 20;
    store->pending_put_capacity = (uint32_t)queue;
    uint64_t frames = o->host_bytes / block;
    if (frames < queue) frames = queue;
    frames += KV_MOVES_MAX; /* reserved for moves when the queue is full */
    uint64_t blocks = frames + (disk ? o->disk_bytes / block : 0);
    blocks += blocks / 4 + 64; /* other processes may have larger limits */
    if (frames > UINT32_MAX / 2 || blocks > BLOCKS_MAX)
        return error_set(error, STATUS_TOO_LARGE,
                         "a KV storage of %llu blocks is too large for its index; lower "
                         "--kv-disk or --kv-host",
                         (unsigned long long)blocks);
    store->frame_count = (uint32_t)frames;
    store->index_bytes = store_index_bytes((uint32_t)blocks);
    store->index.capacity = (uint32_t)blocks;
    if (!o->scan_ms) o->scan_ms = SCAN_MS;
    if (o->cost.block_ns <= 0) o->cost = (struct retain_cost){1, 1.0 / 256};
    return STATUS_OK;
}

static void *kv_store_thread_map(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static enum status kv_store_thread_allocate(struct kv_store *store, struct error *error) {
    struct arena arena;
    uint32_t blocks = store->index.capacity;
    size_t frame_bytes = store->frame_count * store->block_bytes;
    store->index_memory = kv_store_thread_map(store->index_bytes);
    store->frame_memory = kv_store_thread_map(frame_bytes);
    store->frames = calloc(store->frame_count, sizeof *store->frames);
    store->pending_puts = calloc(store->pending_put_capacity, sizeof *store->pending_puts);
    store->tasks = calloc(store->calls->depth, sizeof *store->tasks);
    if (!store->index_memory || !store->frame_memory || !store->frames || !store->pending_puts ||
        !store->tasks)
        return error_set(error, STATUS_NO_MEMORY,
                         "no memory for a KV storage with %zu bytes of blocks and an index of "
                         "%zu; lower --kv-host or --kv-disk",
                         frame_bytes, store->index_bytes);
    arena_over(&arena, store->index_memory, store->index_bytes);
    enum status status = store_index_open(&store->index, &arena, blocks);
    check(status == STATUS_OK); /* the memory is as large as it asked for */
    store->free_frame = STORE_NONE;
    for (uint32_t i = store->frame_count; i-- > 0;)
        kv_store_free_frame(store, i);
    for (uint32_t i = 0; i < store->calls->depth; i++)
        kv_store_free_task(store, &store->tasks[i]);
    return STATUS_OK;
}

static enum status open_backend(struct kv_store *store, struct error *error) {
    const struct kv_store_options *o = &store->options;
    struct kv_backend_options options = {
        .location = o->directory,
        .format = o->format,
        .bytes_max = o->disk_bytes,
        .segment_bytes = o->segment_bytes,
        .event = store->event,
        .io = o->io,
        .faults = o->faults,
        .listener = {kv_store_thread_note_entry, note_gone, kv_store_log, store}};
    if (!kv_store_has_directory(o)) return STATUS_OK;
    store->scanned_ns = clock_now_ns();
    enum status status = store->calls->open(&options, &store->backend, error);
    if (status == STATUS_INVALID) { /* an unusable directory only costs cache hits */
        kv_store_log(store, LOG_WARNING, "is not used, nothing is kept on disk why=%s",
                     error->text);
        return STATUS_OK;
    }
    if (status) return status;
    store->stats.io = store->backend->io;
    store->stats.open_ns = clock_now_ns() - store->scanned_ns;
    return STATUS_OK;
}

static void kv_store_thread_free(struct kv_store *store) {
    if (store->backend) store->backend->calls->close(store->backend);
    if (store->event >= 0) close(store->event);
    if (store->index_memory) munmap(store->index_memory, store->index_bytes);
    if (store->frame_memory) munmap(store->frame_memory, store->frame_count * store->block_bytes);
    pthread_mutex_destroy(&store->lock);
    pthread_cond_destroy(&store->changed);
    free(store->frames);
    free(store->pending_puts);
    free(store->tasks);
    free(store);
}

enum status kv_store_open(const struct kv_store_options *options, struct kv_store **store_out,
                          struct error *error) {
    struct kv_store *store = calloc(1, sizeof *store);
    if (!store) return error_set(error, STATUS_NO_MEMORY, "no memory for the KV storage");
    store->options = *options;
    store->block_bytes = kv_format_block_bytes(&options->format);
    store->calls = options->backend ? options->backend : kv_store_backend_at(options->directory);
    store->part_slices = slices_of_read(store->calls, &options->format);
    store->part_count = (uint32_t)divide_up(options->format.slice_count, store->part_slices);
    store->new_loads_end = &store->new_loads;
    store->dirty_first = store->dirty_last = STORE_NONE;
    store->moving.segment = STORE_NONE;
    store->compacted_ns = store->reads.ns = store->writes.ns = clock_now_ns();
    store->stats.io = "none";
    pthread_mutex_init(&store->lock, NULL);
    timed_wait_open(&store->changed);
    store->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    enum status status = store->event < 0
                             ? error_set(error, STATUS_IO, "no eventfd: %s", strerror(errno))
                             : set_sizes(store, error);
    if (!status) status = kv_store_thread_allocate(store, error);
    if (!status) status = open_backend(store, error);
    if (!status && pthread_create(&store->thread, NULL, run, store))
        status = error_set(error, STATUS_NO_MEMORY, "cannot start the KV storage's thread");
    if (status) {
        kv_store_thread_free(store);
        return status;
    }
    pthread_setname_np(store->thread, "kv-store");
    *store_out = store;
    return STATUS_OK;
}

void kv_store_stop(struct kv_store *store, int64_t wait_ns_max) {
    pthread_mutex_lock(&store->lock);
    store->finishing = true;
    store->end_ns = clock_now_ns() + wait_ns_max;
    pthread_mutex_unlock(&store->lock);
    kv_store_wake(store);
    pthread_join(store->thread, NULL);
    for (; store->pending_put_count; store->pending_put_count--) {
        const struct kv_put_request *put = &store->pending_puts[store->pending_put_first];
        if (put->copied) put->copied(put->context, put->tag);
        store->pending_put_first = (store->pending_put_first + 1) % store->pending_put_capacity;
    }
    store->stopped = true;
}

void kv_store_close(struct kv_store *store) {
    if (!store) return;
    if (!store->stopped) kv_store_stop(store, 0);
    kv_store_write_stop_moving(store);
    kv_store_thread_free(store);
}
