/* SPDX-License-Identifier: Apache-2.0
 * A new block is copied into a frame and sealed, so that the caller's page is free again. Then its
 * frame waits in the write queue, and is written to the backend. If the directory is full, the
 * segment of least value is dropped. Its blocks worth more than the mean are read back while the
 * segment is still held, and queued again.
 */
#include "host/storage/kv_store_write.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"

#define PUTS_AT_ONCE 2           /* blocks copied before the thread handles reads again */
#define TRY_AGAIN_NS 10000000000 /* after a failed write */
#define COMPACT_NS 30000000000   /* interval of searches for a sparse segment */
#define WRITE_SAVED_S 0.25       /* burst of the write rate limit */

/* ---- new blocks ---- */

/* Adds the frame to the write queue, at its front (`first`) or its end. */
static void queue_frame(struct kv_store *store, uint32_t index, bool first) {
    struct kv_frame *frame = &store->frames[index];
    frame->state = FRAME_DIRTY;
    frame->next = first ? store->dirty_first : STORE_NONE;
    if (store->dirty_first == STORE_NONE)
        store->dirty_first = store->dirty_last = index;
    else if (first)
        store->dirty_first = index;
    else {
        store->frames[store->dirty_last].next = index;
        store->dirty_last = index;
    }
    pthread_mutex_lock(&store->lock);
    store->dirty_count++;
    pthread_mutex_unlock(&store->lock);
}

static void count_dropped(struct kv_store *store) {
    pthread_mutex_lock(&store->lock);
    store->stats.dropped++;
    pthread_mutex_unlock(&store->lock);
}

/* Ends the write of a frame. The frame stays as a cached block if there is a host cache. */
static void end_frame_write(struct kv_store *store, uint32_t index, bool written) {
    struct kv_frame *frame = &store->frames[index];
    frame->state = FRAME_CLEAN;
    if (!written) count_dropped(store);
    if (store->options.host_bytes || frame->pins) return;
    uint32_t block = frame->block;
    kv_store_free_frame(store, index);
    pthread_mutex_lock(&store->lock);
    if (block != STORE_NONE) store_index_set_frame(&store->index, block, STORE_NONE);
    pthread_mutex_unlock(&store->lock);
}

/* Copies the caller's block into a frame and queues it, unless the store knows the block already or
 * has no room. */
static void kv_store_write_add_block(struct kv_store *store, const struct kv_put_request *request) {
    bool known = store_index_find(&store->index, &request->key) != STORE_NONE;
    bool off = store->writing == WRITING_OFF && !store->options.host_bytes;
    uint32_t index = known || off ? STORE_NONE : kv_store_take_frame(store);
    if (index == STORE_NONE) {
        if (!known) count_dropped(store);
        return;
    }
    char *memory = kv_frame_memory(store, index);
    store_format_seal(memory, request->block, &store->options.format, &request->key,
                      &request->parent, request->position);
    struct kv_frame *frame = &store->frames[index];
    frame->key = request->key;
    frame->parent = request->parent;
    frame->position = request->position;
    frame->recent = true;
    pthread_mutex_lock(&store->lock);
    frame->block =
        store_index_add(&store->index, &request->key, &request->parent, request->position);
    if (frame->block != STORE_NONE) store_index_set_frame(&store->index, frame->block, index);
    store->stats.kept += frame->block != STORE_NONE;
    pthread_mutex_unlock(&store->lock);
    if (frame->block == STORE_NONE) {
        count_dropped(store);
        kv_store_free_frame(store, index);
    } else if (store->backend && store->writing != WRITING_OFF)
        queue_frame(store, index, false);
    else
        frame->state = FRAME_CLEAN;
}

bool kv_store_write_take_puts(struct kv_store *store) {
    for (uint32_t i = 0; i < PUTS_AT_ONCE; i++) {
        pthread_mutex_lock(&store->lock);
        bool any = store->pending_put_count > 0;
        struct kv_put_request request = store->pending_puts[store->pending_put_first];
        pthread_mutex_unlock(&store->lock);
        if (!any) return false;
        kv_store_write_add_block(store, &request);
        pthread_mutex_lock(&store->lock); /* only now, so that the queue's limit includes it */
        store->pending_put_first = (store->pending_put_first + 1) % store->pending_put_capacity;
        store->pending_put_count--;
        pthread_mutex_unlock(&store->lock);
        if (request.copied) request.copied(request.context, request.tag);
    }
    return true;
}

/* ---- dropping segments ---- */

struct ranking {
    struct retain_block *blocks;
    struct retain_segment *segments;
    uint32_t *order;
    uint32_t count, segment_count;
};

static void rank_end(struct ranking *ranking) {
    free(ranking->blocks);
    free(ranking->segments);
    free(ranking->order);
}

/* A name is the first half of a key. The index looks up by this half only. */
static uint32_t find_named(const struct store_index *index, struct store_name name) {
    struct block_key key = {{0}};
    memcpy(key.bytes, &name, sizeof name);
    return store_index_find(index, &key);
}

/* Computes the current values of all blocks and segments. It reads the index without the lock,
 * because only this thread changes it. Returns false if memory is out. */
static bool rank(struct kv_store *store, struct ranking *out) {
    const struct store_index *index = &store->index;
    struct ranking ranking = {.count = index->used_count,
                              .segment_count =
                                  store->backend->calls->usage(store->backend).segment_count};
    ranking.blocks = calloc(ranking.count + 1, sizeof *ranking.blocks);
    ranking.order = calloc(ranking.count + 1, sizeof *ranking.order);
    ranking.segments = calloc(ranking.segment_count + 1, sizeof *ranking.segments);
    if (!ranking.blocks || !ranking.order || !ranking.segments) {
        rank_end(&ranking);
        return false;
    }
    for (uint32_t i = 0; i < ranking.count; i++) {
        const struct store_block *block = &index->blocks[i];
        bool used = store_index_used(index, i);
        ranking.blocks[i] = (struct retain_block){
            .parent = used && block->position ? find_named(index, block->parent) : RETAIN_NONE,
            .position = block->position,
            .segment = used ? block->segment : RETAIN_NONE,
            .heat = used ? store_index_heat(index, i) : 0,
        };
    }
    for (uint32_t i = 0; i < ranking.segment_count; i++) {
        struct kv_backend_segment segment = {0};
        store->backend->calls->segment(store->backend, i, &segment);
        ranking.segments[i].bytes = segment.bytes + 1;
        ranking.segments[i].slot_count = segment.slot_count;
        ranking.segments[i].movable = segment.movable;
    }
    retain_blocks_value(ranking.blocks, ranking.count, ranking.order, &store->options.cost,
                        store->block_bytes, ranking.segments, ranking.segment_count);
    *out = ranking;
    return true;
}

void kv_store_write_stop_moving(struct kv_store *store) {
    struct kv_moving *moving = &store->moving;
    if (moving->segment == STORE_NONE || moving->in_flight) return;
    pthread_mutex_lock(&store->lock);
    store_index_drop_segment(&store->index, moving->segment);
    pthread_mutex_unlock(&store->lock);
    store->backend->calls->release(store->backend, moving->segment);
    free(moving->blocks);
    free(moving->names);
    *moving = (struct kv_moving){.segment = STORE_NONE};
}

/* Drops a segment, and begins to move its valuable blocks. Returns false if a process writes to
 * the segment. */
static bool kv_store_write_drop_segment(struct kv_store *store, const struct ranking *ranking,
                                        uint32_t segment) {
    struct kv_moving *moving = &store->moving;
    uint32_t keep_max = ranking->segments[segment].slot_count / 2;
    uint32_t *keep = calloc(keep_max + 1, sizeof *keep);
    struct store_name *names = calloc(keep_max + 1, sizeof *names);
    store->backend->calls->hold(store->backend, segment);
    if (!keep || !names || !store->backend->calls->drop(store->backend, segment)) {
        store->backend->calls->release(store->backend, segment);
        free(keep);
        free(names);
        return false;
    }
    *moving = (struct kv_moving){.segment = segment, .blocks = keep, .names = names};
    moving->count =
        retain_blocks_keep(ranking->blocks, ranking->count, segment, keep_max, moving->blocks);
    pthread_mutex_lock(&store->lock);
    store->stats.removed_segments++;
    for (uint32_t i = 0; i < moving->count; i++) {
        names[i] = store->index.blocks[moving->blocks[i]].name;
        store->index.blocks[moving->blocks[i]].segment = KV_SEGMENTS_MAX; /* not dropped below */
    }
    store_index_drop_segment(&store->index, segment);
    for (uint32_t i = 0; i < moving->count; i++)
        store->index.blocks[moving->blocks[i]].segment = segment;
    pthread_mutex_unlock(&store->lock);
    return true;
}

/* Drops the segment of least value, or an older one of another block format. */
static bool drop_least_valuable(struct kv_store *store, const struct ranking *ranking) {
    for (;;) {
        uint32_t segment = retain_blocks_least(ranking->segments, ranking->segment_count);
        struct kv_backend_segment least = {.written_ns = INT64_MAX};
        if (segment != RETAIN_NONE) store->backend->calls->segment(store->backend, segment, &least);
        if (store->backend->calls->drop_other(store->backend, least.written_ns)) return true;
        if (segment == RETAIN_NONE) return false;
        if (kv_store_write_drop_segment(store, ranking, segment)) return true;
        ranking->segments[segment].movable = false;
    }
}

/* Drops segments until the directory has room for `bytes` more. */
static bool kv_store_write_make_room(struct kv_store *store, uint64_t bytes) {
    struct kv_backend *backend = store->backend;
    while (backend->calls->usage(backend).bytes + backend->calls->other_bytes(backend) + bytes >
           store->options.disk_bytes) {
        struct ranking ranking;
        if (store->moving.in_flight || !rank(store, &ranking)) return false;
        kv_store_write_stop_moving(store);
        bool done = drop_least_valuable(store, &ranking);
        rank_end(&ranking);
        if (!done) return false;
    }
    return true;
}

void kv_store_write_compact(struct kv_store *store, int64_t now_ns) {
    struct ranking ranking;
    if (now_ns - store->compacted_ns < COMPACT_NS || store->moving.segment != STORE_NONE ||
        store->dirty_count || store->loads || store->writing != WRITING_ON)
        return;
    store->compacted_ns = now_ns;
    if (!rank(store, &ranking)) return;
    uint32_t segment = retain_blocks_sparse(ranking.segments, ranking.segment_count);
    if (segment != RETAIN_NONE) kv_store_write_drop_segment(store, &ranking, segment);
    rank_end(&ranking);
}

/* True if the index still has the same block at the same place as when the move began. */
static bool is_unmoved(const struct kv_store *store, uint32_t i) {
    const struct store_block *block = &store->index.blocks[store->moving.blocks[i]];
    const struct store_name *name = &store->moving.names[i];
    return block->segment == store->moving.segment && block->name.high == name->high &&
           block->name.low == name->low;
}

void kv_store_write_feed_moves(struct kv_store *store) {
    struct kv_moving *moving = &store->moving;
    while (moving->segment != STORE_NONE && moving->next < moving->count) {
        if (moving->in_flight >= KV_MOVES_MAX) return;
        uint32_t i = moving->next;
        if (!is_unmoved(store, i)) {
            moving->next++;
            continue;
        }
        struct kv_task *task = kv_store_take_task(store, TASK_MOVE);
        if (!task) return;
        task->frame = kv_store_take_frame(store);
        if (task->frame == STORE_NONE) { /* wait until a frame is written */
            kv_store_free_task(store, task);
            return;
        }
        moving->next++;
        moving->in_flight++;
        task->block = i;
        task->op = (struct kv_backend_op){.segment = moving->segment,
                                          .slot = store->index.blocks[moving->blocks[i]].slot,
                                          .bytes = store->block_bytes,
                                          .memory = kv_frame_memory(store, task->frame)};
        store->backend->calls->get(store->backend, &task->op);
    }
    if (moving->segment != STORE_NONE && !moving->in_flight) kv_store_write_stop_moving(store);
}

/* True if header and all slices have the checksums that they were written with. */
static bool block_sound(const struct kv_store *store, const char *memory) {
    const struct kv_format *format = &store->options.format;
    if (store_format_verify(memory, format, NULL) != STORE_SOUND) return false;
    for (uint32_t i = 0; i < format->slice_count; i++)
        if (!store_format_slice_sound(memory, memory + kv_format_slice_offset(format, i), format,
                                      i))
            return false;
    return true;
}

void kv_store_write_end_move(struct kv_store *store, struct kv_task *task) {
    const char *memory = kv_frame_memory(store, task->frame);
    struct kv_frame *frame = &store->frames[task->frame];
    uint32_t i = task->block, block = store->moving.blocks[i];
    store->moving.in_flight--;
    bool sound = !task->op.error && block_sound(store, memory) && is_unmoved(store, i);
    const struct store_mark *mark = store_format_mark(memory);
    if (sound) {
        struct store_name name = store_name_of(&mark->key);
        sound = name.high == store->moving.names[i].high && name.low == store->moving.names[i].low;
    }
    if (!sound || store->index.blocks[block].frame != STORE_NONE) {
        kv_store_free_frame(store, task->frame); /* the index drops the block with its segment */
        return;
    }
    frame->key = mark->key;
    frame->parent = mark->parent;
    frame->position = mark->position;
    frame->block = block;
    frame->moved = true;
    pthread_mutex_lock(&store->lock);
    store_index_set_frame(&store->index, block, task->frame);
    store_index_set_disk(&store->index, block, STORE_NONE, STORE_NONE);
    store->stats.moved++;
    pthread_mutex_unlock(&store->lock);
    queue_frame(store, task->frame, true);
}

/* ---- writing ---- */

static void turn_off(struct kv_store *store, const char *why) {
    if (store->writing == WRITING_ON)
        kv_store_log(store, LOG_WARNING,
                     "nothing is written for now, what is there is still read directory=%s why=%s",
                     store->backend->name, why);
    store->writing_again_ns = clock_now_ns() + TRY_AGAIN_NS;
    pthread_mutex_lock(&store->lock);
    store->writing = WRITING_OFF;
    pthread_mutex_unlock(&store->lock);
}

/* Only a write of a new attempt (WRITING_TRIED) counts. A write that began before the failure and
 * succeeds does not show that later ones will. */
static void turn_on(struct kv_store *store) {
    if (store->writing != WRITING_TRIED) return;
    kv_store_log(store, LOG_INFO, "is written to again directory=%s", store->backend->name);
    pthread_mutex_lock(&store->lock);
    store->writing = WRITING_ON;
    pthread_mutex_unlock(&store->lock);
}

/* Removes the first frame of the queue. */
static uint32_t pop_dirty(struct kv_store *store) {
    uint32_t frame = store->dirty_first;
    store->dirty_first = store->frames[frame].next;
    return frame;
}

static void count_written(struct kv_store *store, uint64_t bytes) {
    pthread_mutex_lock(&store->lock);
    store->dirty_count--;
    store->stats.written_bytes += bytes;
    pthread_mutex_unlock(&store->lock);
}

static void drop_queue(struct kv_store *store) {
    while (store->dirty_first != STORE_NONE) {
        uint32_t frame = pop_dirty(store);
        end_frame_write(store, frame, false);
        count_written(store, 0);
    }
}

/* Writes the first frame of the queue. Returns false if that is not possible now. */
static bool write_frame(struct kv_store *store) {
    struct kv_backend *backend = store->backend;
    struct kv_frame *frame = &store->frames[store->dirty_first];
    struct error error;
    uint64_t growth = backend->calls->growth(backend);
    if (growth && !kv_store_write_make_room(store, growth)) {
        if (!store->moving.in_flight) drop_queue(store); /* other writers use all the space */
        return false;
    }
    struct kv_task *task = kv_store_take_task(store, TASK_WRITE);
    task->frame = store->dirty_first;
    task->op = (struct kv_backend_op){.is_put = true,
                                      .bytes = store->block_bytes,
                                      .memory = kv_frame_memory(store, task->frame),
                                      .key = frame->key,
                                      .parent = frame->parent,
                                      .position = frame->position};
    if (backend->calls->put(backend, &task->op, &error)) {
        kv_store_free_task(store, task);
        turn_off(store, error.text);
        return false;
    }
    pop_dirty(store);
    frame->state = FRAME_WRITING;
    store->writes_in_flight++;
    store->writes.bytes -= (double)store->block_bytes;
    return true;
}

void kv_store_write_feed_writes(struct kv_store *store, int64_t now_ns) {
    uint32_t most = store->loads ? KV_WRITES_DURING_LOADS : KV_WRITES_MAX;
    uint64_t rate = store->options.write_bytes_per_s;
    kv_allowance_refill(&store->writes, rate, WRITE_SAVED_S, now_ns);
    if (store->writing == WRITING_OFF && now_ns >= store->writing_again_ns) {
        pthread_mutex_lock(&store->lock);
        store->writing = WRITING_TRIED;
        pthread_mutex_unlock(&store->lock);
    }
    while (store->dirty_first != STORE_NONE && store->writing != WRITING_OFF) {
        if (store->writes_in_flight >= most || store->free_task_count == 0) return;
        if (!kv_allowance_allows(&store->writes, rate) && !store->hurry) return;
        if (store->moving.segment != STORE_NONE && !store->frames[store->dirty_first].moved)
            return; /* moves come first: dropping the next segment ends them */
        if (!write_frame(store)) break;
    }
    if (store->writing == WRITING_OFF) {
        drop_queue(store);
        kv_store_write_stop_moving(store);
    }
}

int64_t kv_store_write_wake_ns(const struct kv_store *store) {
    if (store->dirty_first == STORE_NONE) return INT64_MAX;
    return kv_allowance_wake_ns(&store->writes, store->options.write_bytes_per_s);
}

void kv_store_write_end_write(struct kv_store *store, struct kv_task *task) {
    const struct kv_backend_op *op = &task->op;
    store->writes_in_flight--;
    if (op->error == 0) {
        turn_on(store);
        pthread_mutex_lock(&store->lock);
        store_index_set_disk(&store->index, store->frames[task->frame].block, op->segment,
                             op->slot);
        pthread_mutex_unlock(&store->lock);
    } else if (op->error != ESTALE) {
        char why[256];
        snprintf(why, sizeof why, "%.160s: cannot write: %s", store->backend->name,
                 strerror(op->error));
        turn_off(store, why);
        pthread_mutex_lock(&store->lock);
        store->stats.io_errors++;
        pthread_mutex_unlock(&store->lock);
    }
    end_frame_write(store, task->frame, !op->error);
    count_written(store, op->error ? 0 : store->block_bytes);
}
