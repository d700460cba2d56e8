/* SPDX-License-Identifier: Apache-2.0
 * A backend of the KV storage without files: blocks are in this process's memory, and stay when the
 * backend is closed. It shows that the store needs nothing but host/storage/kv_backend.h.
 */
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "host/storage/kv_backend.h"

#define MEMORY_SEGMENTS 64
#define MEMORY_SLOTS 8
#define MEMORY_OPS 64

static struct memory_segment {
    char *blocks; /* [MEMORY_SLOTS][block_bytes]; NULL: free */
    struct store_entry entries[MEMORY_SLOTS];
    uint32_t count, holds;
    bool dropped;
} memory_segments[MEMORY_SEGMENTS];

static struct memory_backend {
    struct kv_backend backend; /* first */
    struct kv_backend_listener listener;
    size_t block_bytes;
    uint32_t active; /* MEMORY_SEGMENTS: none */
    int event;
    struct kv_backend_op *ended[MEMORY_OPS];
    uint32_t ended_count;
} world;

static void memory_free(uint32_t i) {
    struct memory_segment *segment = &memory_segments[i];
    if (!segment->dropped || segment->holds) return;
    free(segment->blocks);
    *segment = (struct memory_segment){0};
}

static void memory_clear(void) {
    for (uint32_t i = 0; i < MEMORY_SEGMENTS; i++) {
        memory_segments[i].dropped = true;
        memory_free(i);
    }
}

static enum status memory_open(const struct kv_backend_options *options,
                               struct kv_backend **backend_out, struct error *error) {
    extern const struct kv_backend_calls memory_calls;
    world = (struct memory_backend){.backend = {&memory_calls, options->location, "memory"},
                                    .listener = options->listener,
                                    .block_bytes = kv_format_block_bytes(&options->format),
                                    .active = MEMORY_SEGMENTS,
                                    .event = options->event};
    for (uint32_t i = 0; i < MEMORY_SEGMENTS; i++)
        for (uint32_t slot = 0; slot < memory_segments[i].count; slot++)
            world.listener.entry(world.listener.context, i, &memory_segments[i].entries[slot]);
    *backend_out = &world.backend;
    return STATUS_OK;
}

static void memory_close(struct kv_backend *backend) {
    check(world.ended_count == 0);
}

static void memory_list(struct kv_backend *backend, bool again) {
}

static bool memory_segment(const struct kv_backend *backend, uint32_t i,
                           struct kv_backend_segment *out) {
    const struct memory_segment *segment = &memory_segments[i];
    if (!segment->blocks || segment->dropped) return false;
    *out = (struct kv_backend_segment){.bytes = segment->count * world.block_bytes,
                                       .slot_count = segment->count,
                                       .movable = i != world.active};
    return true;
}

static struct kv_backend_usage memory_usage(const struct kv_backend *backend) {
    struct kv_backend_usage usage = {.segment_count = MEMORY_SEGMENTS};
    struct kv_backend_segment segment;
    for (uint32_t i = 0; i < MEMORY_SEGMENTS; i++) {
        if (!memory_segment(backend, i, &segment)) continue;
        usage.bytes += segment.bytes;
        usage.segments++;
    }
    return usage;
}

static void memory_end(struct kv_backend_op *op, int error) {
    op->error = error;
    op->done = error ? 0 : op->bytes;
    check(world.ended_count < MEMORY_OPS);
    world.ended[world.ended_count++] = op;
}

static void memory_get(struct kv_backend *backend, struct kv_backend_op *op) {
    const struct memory_segment *segment = &memory_segments[op->segment];
    bool there = segment->blocks && op->slot < segment->count;
    if (there)
        memcpy(op->memory, segment->blocks + op->slot * world.block_bytes + op->offset, op->bytes);
    memory_end(op, there ? 0 : EIO);
}

static uint64_t memory_growth(const struct kv_backend *backend) {
    return world.active == MEMORY_SEGMENTS ? MEMORY_SLOTS * world.block_bytes : 0;
}

static enum status memory_put(struct kv_backend *backend, struct kv_backend_op *op,
                              struct error *error) {
    for (uint32_t i = 0; i < MEMORY_SEGMENTS && world.active == MEMORY_SEGMENTS; i++)
        if (!memory_segments[i].blocks) world.active = i;
    if (world.active == MEMORY_SEGMENTS) return error_set(error, STATUS_FULL, "all are in use");
    struct memory_segment *segment = &memory_segments[world.active];
    if (!segment->blocks) segment->blocks = malloc(MEMORY_SLOTS * world.block_bytes);
    check(segment->blocks);
    op->segment = world.active;
    op->slot = segment->count++;
    memcpy(segment->blocks + op->slot * world.block_bytes, op->memory, op->bytes);
    segment->entries[op->slot] =
        store_format_entry(STORE_ENTRY_BLOCK, &op->key, &op->parent, op->slot, op->position);
    if (segment->count == MEMORY_SLOTS) world.active = MEMORY_SEGMENTS;
    memory_end(op, 0);
    return STATUS_OK;
}

static void memory_start(struct kv_backend *backend) {
    uint64_t one = 1;
    if (world.ended_count) check(write(world.event, &one, sizeof one) == sizeof one);
}

static struct kv_backend_op *memory_take(struct kv_backend *backend) {
    return world.ended_count ? world.ended[--world.ended_count] : NULL;
}

static void memory_hold(struct kv_backend *backend, uint32_t i) {
    memory_segments[i].holds++;
}

static void memory_release(struct kv_backend *backend, uint32_t i) {
    memory_segments[i].holds--;
    memory_free(i);
}

static bool memory_drop(struct kv_backend *backend, uint32_t i) {
    if (i == world.active || !memory_segments[i].blocks) return false;
    memory_segments[i].dropped = true;
    memory_free(i);
    return true;
}

static void memory_retire(struct kv_backend *backend, uint32_t i, uint32_t slot,
                          const struct block_key *key) {
    memory_segments[i].entries[slot] = store_format_entry(STORE_ENTRY_DEAD, key, key, slot, 0);
}

static uint64_t memory_other_bytes(const struct kv_backend *backend) {
    return 0;
}

static bool memory_drop_other(struct kv_backend *backend, int64_t before_ns) {
    return false;
}

extern const struct kv_backend_calls memory_calls;
const struct kv_backend_calls memory_calls = {
    .read_bytes = 64 << 10,
    .depth = 32,
    .open = memory_open,
    .close = memory_close,
    .list = memory_list,
    .usage = memory_usage,
    .segment = memory_segment,
    .get = memory_get,
    .growth = memory_growth,
    .put = memory_put,
    .start = memory_start,
    .take = memory_take,
    .hold = memory_hold,
    .release = memory_release,
    .drop = memory_drop,
    .retire = memory_retire,
    .other_bytes = memory_other_bytes,
    .drop_other = memory_drop_other,
};
