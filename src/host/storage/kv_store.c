/* SPDX-License-Identifier: Apache-2.0
 * The KV store's pools of I/O tasks and host-memory frames, and most of the functions that other
 * threads call.
 */
#include "host/storage/kv_store.h"

#include <unistd.h>

#include "base/format.h"
#include "host/process/timed_wait.h"
#include "host/storage/kv_files_backend.h"
#include "host/storage/kv_store_state.h"

void kv_store_log(const void *context, enum log_level level, const char *format, ...) {
    const struct kv_store *store = context;
    char line[600];
    va_list arguments;
    va_start(arguments, format);
    if (store->options.log) {
        format_va(line, sizeof line, format, arguments);
        store->options.log(store->options.log_context, line);
    } else {
        log_say_va(level, "storage", format, arguments);
    }
    va_end(arguments);
}

void kv_store_wake(const struct kv_store *store) {
    uint64_t one = 1;
    ssize_t written = write(store->event, &one, sizeof one);
    (void)written; /* fails only if a wake-up is already pending */
}

struct kv_task *kv_store_take_task(struct kv_store *store, enum kv_task_kind kind) {
    if (store->free_task_count == 0) return NULL;
    struct kv_task *task = &store->tasks[store->free_task];
    store->free_task = task->next;
    store->free_task_count--;
    task->kind = kind;
    return task;
}

void kv_store_free_task(struct kv_store *store, struct kv_task *task) {
    task->next = store->free_task;
    store->free_task = (uint32_t)(task - store->tasks);
    store->free_task_count++;
}

/* Evicts a clean, unpinned frame, chosen by the clock algorithm. Returns false if there is none. */
static bool evict_frame(struct kv_store *store) {
    for (uint32_t i = 0; i < 2 * store->frame_count; i++) {
        uint32_t index = store->hand;
        struct kv_frame *frame = &store->frames[index];
        store->hand = (store->hand + 1) % store->frame_count;
        if (frame->state != FRAME_CLEAN || frame->pins) continue;
        /* Without a host cache, a recently used frame gets no second chance. */
        if (frame->recent && store->options.host_bytes) {
            frame->recent = false;
            continue;
        }
        uint32_t block = frame->block;
        kv_store_free_frame(store, index);
        pthread_mutex_lock(&store->lock);
        store_index_set_frame(&store->index, block, STORE_NONE);
        pthread_mutex_unlock(&store->lock);
        return true;
    }
    return false;
}

uint32_t kv_store_take_frame(struct kv_store *store) {
    if (store->free_frame == STORE_NONE && !evict_frame(store)) return STORE_NONE;
    uint32_t index = store->free_frame;
    store->free_frame = store->frames[index].next;
    store->frames[index] = (struct kv_frame){.state = FRAME_FILLING, .block = STORE_NONE};
    return index;
}

void kv_store_free_frame(struct kv_store *store, uint32_t index) {
    store->frames[index].state = FRAME_FREE;
    store->frames[index].next = store->free_frame;
    store->free_frame = index;
}

void kv_store_drop_disk_copy(struct kv_store *store, const struct block_key *key, uint32_t segment,
                             uint32_t slot, bool damaged) {
    if (damaged) store->backend->calls->retire(store->backend, segment, slot, key);
    pthread_mutex_lock(&store->lock);
    uint32_t block = store_index_find(&store->index, key);
    if (block != STORE_NONE && store->index.blocks[block].segment == segment &&
        store->index.blocks[block].slot == slot)
        store_index_set_disk(&store->index, block, STORE_NONE, STORE_NONE);
    store->stats.damaged += damaged;
    pthread_mutex_unlock(&store->lock);
}

/* ---- called by other threads ---- */

struct kv_found kv_store_find(struct kv_store *store, const struct block_key *keys,
                              uint32_t count) {
    struct kv_found found;
    pthread_mutex_lock(&store->lock);
    found.blocks = store_index_match_prefix(&store->index, keys, count, &found.host);
    pthread_mutex_unlock(&store->lock);
    return found;
}

void kv_store_refresh(struct kv_store *store, int64_t ns_max) {
    struct timespec until = timed_wait_deadline(ns_max);
    pthread_mutex_lock(&store->lock);
    uint64_t request_number = ++store->refresh_requested;
    pthread_mutex_unlock(&store->lock);
    kv_store_wake(store);
    pthread_mutex_lock(&store->lock);
    while (store->refresh_done < request_number)
        if (pthread_cond_timedwait(&store->changed, &store->lock, &until)) break;
    pthread_mutex_unlock(&store->lock);
}

enum kv_put_result kv_store_put(struct kv_store *store, const struct kv_put_request *request) {
    enum kv_put_result result = KV_PUT_QUEUED;
    pthread_mutex_lock(&store->lock);
    bool no_disk_writes = store->writing == WRITING_OFF || !store->backend;
    if (store_index_find(&store->index, &request->key) != STORE_NONE)
        result = KV_PUT_ALREADY_STORED;
    else if (store->pending_put_count + store->dirty_count >= store->pending_put_capacity ||
             store->finishing || (no_disk_writes && !store->options.host_bytes))
        result = KV_PUT_FULL;
    store->stats.dropped += result == KV_PUT_FULL;
    if (result == KV_PUT_QUEUED)
        store->pending_puts[(store->pending_put_first + store->pending_put_count++) %
                            store->pending_put_capacity] = *request;
    pthread_mutex_unlock(&store->lock);
    if (result == KV_PUT_QUEUED) kv_store_wake(store);
    return result;
}

void kv_store_flush(struct kv_store *store) {
    pthread_mutex_lock(&store->lock);
    uint64_t request_number = ++store->flush_requested;
    pthread_mutex_unlock(&store->lock);
    kv_store_wake(store);
    pthread_mutex_lock(&store->lock);
    while (store->flush_done < request_number)
        pthread_cond_wait(&store->changed, &store->lock);
    pthread_mutex_unlock(&store->lock);
}

bool kv_store_has_directory(const struct kv_store_options *options) {
    return options->directory && options->directory[0];
}

const struct kv_backend_calls *kv_store_backend_at(const char *directory) {
    return &kv_files_backend; /* there is only one backend so far */
}

enum status kv_store_check(const char *directory, bool deep,
                           const struct kv_check_listener *listener, struct kv_check *total_out,
                           struct error *error) {
    return kv_store_backend_at(directory)->inspect(directory, deep, listener, total_out, error);
}

enum status kv_store_shrink(const char *directory, uint64_t bytes, uint64_t *removed_out,
                            uint64_t *left_out, struct error *error) {
    return kv_store_backend_at(directory)->shrink(directory, bytes, removed_out, left_out, error);
}

bool kv_store_is_writable(struct kv_store *store) {
    pthread_mutex_lock(&store->lock);
    bool lacks_disk = kv_store_has_directory(&store->options) && !store->backend;
    bool writable = store->writing != WRITING_OFF && !lacks_disk;
    pthread_mutex_unlock(&store->lock);
    return writable;
}

struct kv_store_stats kv_store_get_stats(struct kv_store *store) {
    pthread_mutex_lock(&store->lock);
    struct kv_store_stats stats = store->stats;
    stats.blocks = store->index.count;
    for (uint32_t i = 0; i < store->index.used_count; i++) {
        if (!store_index_used(&store->index, i)) continue;
        stats.host_blocks += store->index.blocks[i].frame != STORE_NONE;
        stats.disk_blocks += store->index.blocks[i].segment != STORE_NONE;
    }
    stats.on_disk = store->backend;
    stats.writable = store->backend && store->writing != WRITING_OFF;
    pthread_mutex_unlock(&store->lock);
    return stats;
}
