/* SPDX-License-Identifier: Apache-2.0
 * Loads read blocks in parts of about 256 KiB. Each part is read for all blocks before the next
 * part, so that layers arrive in the order of the forward pass. Part 0 begins with the block's
 * header page, which has the checksums. Parts that arrive before it are verified after it.
 */
#include "host/storage/kv_store_load.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "host/process/timed_wait.h"

#define WRITE_SHARE 4     /* a quarter of the tasks is reserved for writes */
#define READ_SAVED_S 0.01 /* burst of the read rate limit */
#define COPIES_AT_ONCE 64 /* copies from host memory before the thread does other work */

struct kv_load *kv_store_load(struct kv_store *store, const struct kv_load_request *request) {
    size_t parts = store->part_count;
    struct kv_load *load =
        calloc(1, sizeof *load + request->count * sizeof load->blocks[0] +
                      parts * sizeof *load->part_counts + request->count * parts);
    if (!load) return NULL;
    load->store = store;
    load->done_call = request->done;
    load->context = request->context;
    load->begun_ns = clock_now_ns();
    load->count = request->count;
    load->part_counts = (uint32_t *)(void *)&load->blocks[request->count];
    load->pieces = (uint8_t *)(load->part_counts + parts);
    load->state.blocks = request->count;
    for (uint32_t i = 0; i < request->count; i++) {
        check((uintptr_t)request->blocks[i] % STORE_PAGE_BYTES == 0);
        load->blocks[i] = (struct kv_load_block){.key = request->keys[i],
                                                 .memory = request->blocks[i],
                                                 .segment = STORE_NONE,
                                                 .frame = STORE_NONE};
    }
    pthread_mutex_lock(&store->lock);
    *store->new_loads_end = load;
    store->new_loads_end = &load->next;
    pthread_mutex_unlock(&store->lock);
    kv_store_wake(store);
    return load;
}

uint32_t kv_store_load_parts(const struct kv_store *store) {
    return store->part_count;
}

struct kv_load_state kv_store_load_get_state(struct kv_load *load) {
    pthread_mutex_lock(&load->store->lock);
    struct kv_load_state state = load->state;
    pthread_mutex_unlock(&load->store->lock);
    return state;
}

struct kv_load_state kv_store_load_wait(struct kv_load *load, uint32_t slices, int64_t ns_max) {
    struct timespec until = timed_wait_deadline(ns_max);
    int late = 0;
    pthread_mutex_lock(&load->store->lock);
    while (!load->state.done && load->state.slices < slices && late == 0)
        late = pthread_cond_timedwait(&load->store->changed, &load->store->lock, &until);
    struct kv_load_state state = load->state;
    pthread_mutex_unlock(&load->store->lock);
    return state;
}

void kv_store_load_end(struct kv_load *load) {
    kv_store_load_wait(load, UINT32_MAX, INT64_MAX);
    free(load);
}

/* ---- progress ---- */

static void report_progress(struct kv_load *load) {
    struct kv_store *store = load->store;
    uint32_t part = 0, usable = load->state.blocks;
    while (part < store->part_count && load->part_counts[part] == usable)
        part++;
    uint32_t slices = part * store->part_slices;
    if (slices > store->options.format.slice_count) slices = store->options.format.slice_count;
    if (slices == load->state.slices) return;
    pthread_mutex_lock(&store->lock);
    load->state.slices = slices;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->lock);
}

/* Cuts the load, so that it ends before this block. */
static void kv_store_load_truncate(struct kv_load *load, uint32_t block) {
    struct kv_store *store = load->store;
    if (block >= load->state.blocks) return;
    pthread_mutex_lock(&store->lock);
    load->state.blocks = block;
    pthread_mutex_unlock(&store->lock);
    for (uint32_t part = 0; part < store->part_count; part++) {
        load->part_counts[part] = 0;
        for (uint32_t i = 0; i < block; i++)
            load->part_counts[part] += load->pieces[i * store->part_count + part] == PIECE_ARRIVED;
    }
    report_progress(load);
}

static void kv_store_load_arrive(struct kv_load *load, uint32_t block, uint32_t part) {
    load->pieces[block * load->store->part_count + part] = PIECE_ARRIVED;
    if (block < load->state.blocks) load->part_counts[part]++;
}

/* ---- verification ---- */

static bool part_sound(const struct kv_load *load, uint32_t block, uint32_t part) {
    const struct kv_store *store = load->store;
    const char *memory = load->blocks[block].memory;
    uint32_t slice = part * store->part_slices, end = slice + store->part_slices;
    if (end > store->options.format.slice_count) end = store->options.format.slice_count;
    for (; slice < end; slice++)
        if (!store_format_slice_sound(
                memory, memory + kv_format_slice_offset(&store->options.format, slice),
                &store->options.format, slice))
            return false;
    return true;
}

static void kv_store_load_drop_block(struct kv_load *load, uint32_t block, bool damaged) {
    const struct kv_load_block *lost = &load->blocks[block];
    kv_store_drop_disk_copy(load->store, &lost->key, lost->segment, lost->slot, damaged);
    kv_store_load_truncate(load, block);
}

/* Verifies a part of a block with a sound header. */
static bool verify_part(struct kv_load *load, uint32_t block, uint32_t part) {
    struct kv_load_block *entry = &load->blocks[block];
    if (!part_sound(load, block, part)) {
        kv_store_load_drop_block(load, block, true);
        return false;
    }
    if (entry->frame != STORE_NONE) {
        size_t offset = kv_part_offset(load->store, part);
        memcpy(kv_frame_memory(load->store, entry->frame) + offset, (char *)entry->memory + offset,
               kv_part_bytes(load->store, part));
    }
    kv_store_load_arrive(load, block, part);
    return true;
}

static void prove_block(struct kv_load *load, uint32_t block) {
    const struct kv_store *store = load->store;
    struct kv_load_block *entry = &load->blocks[block];
    if (store_format_verify(entry->memory, &store->options.format, &entry->key) != STORE_SOUND) {
        kv_store_load_drop_block(load, block, true);
        return;
    }
    entry->header_sound = true;
    for (uint32_t part = 0; part < store->part_count; part++)
        if (load->pieces[block * store->part_count + part] == PIECE_UNVERIFIED &&
            !verify_part(load, block, part))
            return;
}

/* ---- end of a load ---- */

static void finish_block(struct kv_load *load, uint32_t i) {
    struct kv_store *store = load->store;
    struct kv_load_block *entry = &load->blocks[i];
    bool whole = i < load->state.blocks;
    if (whole) ((struct kv_block_header *)entry->memory)->checksum_valid = 0; /* a live page */
    if (entry->from_disk) store->backend->calls->release(store->backend, entry->segment);
    if (entry->frame == STORE_NONE) return;
    struct kv_frame *frame = &store->frames[entry->frame];
    if (!entry->from_disk) {
        frame->pins--;
        return;
    }
    uint32_t block = whole ? store_index_find(&store->index, &entry->key) : STORE_NONE;
    if (block == STORE_NONE || store->index.blocks[block].frame != STORE_NONE) {
        kv_store_free_frame(store, entry->frame);
        return;
    }
    frame->state = FRAME_CLEAN;
    frame->block = block;
    frame->recent = true;
    pthread_mutex_lock(&store->lock);
    store_index_set_frame(&store->index, block, entry->frame);
    pthread_mutex_unlock(&store->lock);
}

static void kv_store_load_finish(struct kv_load *load) {
    struct kv_store *store = load->store;
    uint32_t host = 0;
    for (uint32_t i = 0; i < load->count && load->begun; i++) {
        host += i < load->state.blocks && !load->blocks[i].from_disk;
        finish_block(load, i);
    }
    int64_t ns = clock_now_ns() - load->begun_ns;
    pthread_mutex_lock(&store->lock);
    load->state.host = host;
    load->state.ns = ns;
    store->stats.loaded_host += host;
    store->stats.loaded_disk += load->state.blocks - host;
    pthread_mutex_unlock(&store->lock);
    if (load->done_call) load->done_call(load->context, load);
    pthread_mutex_lock(&store->lock);
    load->state.done = true; /* from here on it may be freed */
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->lock);
}

/* ---- calls of the store's thread ---- */

/* Looks up the load's blocks, and cuts the load before the first block that is not stored. */
static void begin(struct kv_store *store, struct kv_load *load) {
    uint32_t count = 0;
    pthread_mutex_lock(&store->lock);
    for (; count < load->count; count++) {
        struct kv_load_block *entry = &load->blocks[count];
        uint32_t block = store_index_find(&store->index, &entry->key);
        if (block == STORE_NONE) break;
        const struct store_block *found = &store->index.blocks[block];
        store_index_touch(&store->index, block);
        if (found->frame != STORE_NONE) {
            entry->frame = found->frame;
            store->frames[entry->frame].pins++;
            store->frames[entry->frame].recent = true;
        } else {
            entry->from_disk = true;
            entry->segment = found->segment;
            entry->slot = found->slot;
            store->backend->calls->hold(store->backend, entry->segment);
        }
    }
    load->count = load->state.blocks = count;
    pthread_mutex_unlock(&store->lock);
    for (uint32_t i = 0; i < count && store->options.host_bytes; i++)
        if (load->blocks[i].from_disk) load->blocks[i].frame = kv_store_take_frame(store);
    load->begun = true;
}

void kv_store_load_begin_loads(struct kv_store *store) {
    pthread_mutex_lock(&store->lock);
    struct kv_load *added = store->new_loads, **end = &store->loads;
    store->new_loads = NULL;
    store->new_loads_end = &store->new_loads;
    pthread_mutex_unlock(&store->lock);
    while (*end)
        end = &(*end)->next;
    *end = added;
    for (; added; added = added->next)
        begin(store, added);
}

/* Reads or copies the next part. Returns false if no task is free or the rate limit is reached. */
static bool feed_piece(struct kv_store *store, struct kv_load *load, uint32_t *copies) {
    uint32_t part = load->cursor / load->count, block = load->cursor % load->count;
    struct kv_load_block *entry = &load->blocks[block];
    size_t offset = kv_part_offset(store, part), bytes = kv_part_bytes(store, part);
    if (block >= load->state.blocks) {
        load->cursor++;
        return true;
    }
    if (!entry->from_disk) {
        memcpy((char *)entry->memory + offset, kv_frame_memory(store, entry->frame) + offset,
               bytes);
        kv_store_load_arrive(load, block, part);
        ++*copies;
    } else {
        if (store->free_task_count <= store->calls->depth / WRITE_SHARE ||
            !kv_allowance_allows(&store->reads, store->options.read_bytes_per_s))
            return false;
        store->reads.bytes -= (double)bytes;
        struct kv_task *task = kv_store_take_task(store, TASK_LOAD);
        task->load = load;
        task->block = block;
        task->part = part;
        task->op = (struct kv_backend_op){.segment = entry->segment,
                                          .slot = entry->slot,
                                          .offset = offset,
                                          .bytes = bytes,
                                          .memory = (char *)entry->memory + offset};
        load->in_flight++;
        store->backend->calls->get(store->backend, &task->op);
    }
    load->cursor++;
    return true;
}

int64_t kv_store_load_read_wake_ns(const struct kv_store *store) {
    if (!store->loads) return INT64_MAX;
    return kv_allowance_wake_ns(&store->reads, store->options.read_bytes_per_s);
}

bool kv_store_load_feed_loads(struct kv_store *store) {
    uint32_t copies = 0;
    kv_allowance_refill(&store->reads, store->options.read_bytes_per_s, READ_SAVED_S,
                        clock_now_ns());
    for (struct kv_load **at = &store->loads, *load; (load = *at);) {
        uint32_t end = load->count * store->part_count;
        while (load->cursor < end && copies < COPIES_AT_ONCE && feed_piece(store, load, &copies)) {
        }
        report_progress(load);
        if (load->cursor < end || load->in_flight) {
            at = &load->next;
            continue;
        }
        *at = load->next;
        kv_store_load_finish(load);
    }
    return copies >= COPIES_AT_ONCE;
}

void kv_store_load_end_read(struct kv_store *store, struct kv_task *task) {
    struct kv_load *load = task->load;
    uint32_t block = task->block, part = task->part;
    load->in_flight--;
    pthread_mutex_lock(&store->lock);
    store->stats.read_bytes += task->op.done;
    store->stats.io_errors += task->op.error != 0;
    pthread_mutex_unlock(&store->lock);
    if (block >= load->state.blocks) return;
    if (task->op.error) {
        kv_store_load_drop_block(load, block, false);
        return;
    }
    load->pieces[block * store->part_count + part] = PIECE_UNVERIFIED;
    if (part == 0)
        prove_block(load, block);
    else if (load->blocks[block].header_sound)
        verify_part(load, block, part);
    report_progress(load);
}
