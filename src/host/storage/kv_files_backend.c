/* SPDX-License-Identifier: Apache-2.0
 * A put writes its block to the next slot of the active segment. When all bytes are written, it
 * adds an entry to the sidecar. After a full or failed segment, the next put begins another one.
 */
#include "host/storage/kv_files_backend.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/check.h"
#include "host/storage/kv_files.h"
#include "host/storage/kv_files_check.h"
#include "host/storage/kv_files_others.h"

#define SEGMENT_BYTES_MAX ((uint64_t)1 << 30)
#define PIECES_MAX 4 /* limit of writes in progress per block */

struct files_piece {    /* one read or write of a transfer */
    struct kv_io_op io; /* first member: its pointer is cast to the piece */
    struct kv_backend_op *op;
    struct files_piece *next; /* next free piece */
};

struct files_backend {
    struct kv_backend backend; /* first member: its pointer is cast to the struct */
    struct kv_backend_listener listener;
    struct kv_files files;
    struct kv_io *io;
    struct files_piece *pieces, *free_piece; /* [PIECES_MAX * depth] */
    uint32_t active;                         /* active segment; KV_SEGMENT_NONE: none */
    bool adopted;        /* a first segment was begun, if possible a partly filled one */
    uint32_t slot_count; /* slots of a new segment */
};

static struct files_backend *files_of(const struct kv_backend *backend) {
    return (struct files_backend *)(uintptr_t)backend;
}

/* ---- the active segment ---- */

/* Adds no more blocks to the segment. It ends after its last write in progress. */
static void leave_segment(struct files_backend *own, uint32_t index) {
    if (own->active == index) own->active = KV_SEGMENT_NONE;
    if (own->files.segments[index]->writes == 0) kv_files_end(&own->files, index);
}

/* Leaves a segment with files that were removed, replaced or truncated in spite of the lock. */
static void leave_lost(struct files_backend *own, uint32_t index) {
    if (own->active == index)
        own->listener.say(own->listener.context, LOG_WARNING,
                          "somebody removed, replaced or cut files of the segment that was being "
                          "written to, the next block begins a new one directory=%s",
                          own->files.path);
    leave_segment(own, index);
}

static uint64_t files_growth(const struct kv_backend *backend) {
    const struct files_backend *own = files_of(backend);
    uint64_t bytes = store_format_slot_offset(own->files.block_bytes, own->slot_count);
    if (own->active != KV_SEGMENT_NONE) return 0;
    return own->adopted ? 2 * bytes : bytes; /* a dropped segment is still being read */
}

static enum status have_segment(struct files_backend *own, struct error *error) {
    if (own->active != KV_SEGMENT_NONE) return STATUS_OK;
    enum status status =
        kv_files_begin(&own->files, own->slot_count, !own->adopted, &own->active, error);
    if (status)
        own->active = KV_SEGMENT_NONE;
    else
        own->adopted = true;
    return status;
}

/* ---- transfers ---- */

static void give_piece(struct files_backend *own, struct kv_backend_op *op) {
    struct files_piece *piece = own->free_piece;
    size_t at = op->begun, bytes = op->bytes - at;
    check(piece); /* at most `depth` transfers are in progress */
    own->free_piece = piece->next;
    if (op->is_put && bytes > KV_WRITE_BYTES) bytes = KV_WRITE_BYTES;
    piece->op = op;
    piece->io = (struct kv_io_op){
        .write = op->is_put,
        .file = own->files.segments[op->segment]->data,
        .memory = op->memory + at,
        .offset = store_format_slot_offset(own->files.block_bytes, op->slot) + op->offset + at,
        .bytes = bytes};
    op->begun += bytes;
    op->pieces++;
    kv_files_io_give(own->io, &piece->io);
}

static void files_get(struct kv_backend *backend, struct kv_backend_op *op) {
    give_piece(files_of(backend), op);
}

static enum status files_put(struct kv_backend *backend, struct kv_backend_op *op,
                             struct error *error) {
    struct files_backend *own = files_of(backend);
    enum status status = have_segment(own, error);
    if (status) return status;
    struct kv_segment *segment = own->files.segments[own->active];
    op->segment = own->active;
    op->slot = segment->next_slot++;
    segment->writes++;
    if (segment->next_slot == segment->slot_count) own->active = KV_SEGMENT_NONE;
    while (op->begun < op->bytes && op->pieces < PIECES_MAX)
        give_piece(own, op);
    return STATUS_OK;
}

/* Ends a put, and adds its entry to the sidecar if the block was written. */
static void end_put(struct files_backend *own, struct kv_backend_op *op) {
    struct kv_segment *segment = own->files.segments[op->segment];
    if (!op->error) {
        struct store_entry entry =
            store_format_entry(STORE_ENTRY_BLOCK, &op->key, &op->parent, op->slot, op->position);
        op->error = kv_files_note(&own->files, op->segment, &entry);
    }
    segment->writes--;
    segment->stopped = segment->stopped || op->error;
    if (op->error == ESTALE)
        leave_lost(own, op->segment);
    else if (segment->stopped || segment->next_slot == segment->slot_count)
        leave_segment(own, op->segment);
}

static struct kv_backend_op *files_take(struct kv_backend *backend) {
    struct files_backend *own = files_of(backend);
    for (struct kv_io_op *io; (io = kv_files_io_take(own->io));) {
        struct files_piece *piece = (struct files_piece *)(void *)io;
        struct kv_backend_op *op = piece->op;
        piece->next = own->free_piece;
        own->free_piece = piece;
        op->pieces--;
        op->done += io->done;
        if (io->error) op->error = io->error;
        if (op->begun < op->bytes && !op->error) give_piece(own, op);
        if (op->pieces) continue;
        if (op->is_put) end_put(own, op);
        return op;
    }
    return NULL;
}

static void files_start(struct kv_backend *backend) {
    kv_files_io_start(files_of(backend)->io);
}

/* ---- segments ---- */

static void files_list(struct kv_backend *backend, bool again) {
    struct files_backend *own = files_of(backend);
    if (again) own->files.scanned_ns = -1;
    kv_files_scan(&own->files, KV_SCAN_REPAIR, &own->listener);
    uint32_t active = own->active;
    if (active != KV_SEGMENT_NONE && own->files.segments[active]->stopped) leave_lost(own, active);
}

static struct kv_backend_usage files_usage(const struct kv_backend *backend) {
    const struct kv_files *files = &files_of(backend)->files;
    struct kv_backend_usage usage = {.bytes = kv_files_bytes(files),
                                     .segment_count = files->segment_count};
    for (uint32_t i = 0; i < files->segment_count; i++)
        usage.segments += files->segments[i] && !files->segments[i]->gone;
    return usage;
}

static bool files_segment(const struct kv_backend *backend, uint32_t index,
                          struct kv_backend_segment *out) {
    const struct kv_segment *segment = files_of(backend)->files.segments[index];
    if (segment)
        *out = (struct kv_backend_segment){.bytes = segment->bytes,
                                           .slot_count = segment->next_slot,
                                           .movable = !segment->active && !segment->gone,
                                           .written_ns = segment->modified_ns};
    return segment;
}

static void files_hold(struct kv_backend *backend, uint32_t segment) {
    kv_files_use(&files_of(backend)->files, segment);
}

static void files_release(struct kv_backend *backend, uint32_t segment) {
    kv_files_unuse(&files_of(backend)->files, segment);
}

static bool files_drop(struct kv_backend *backend, uint32_t segment) {
    return kv_files_remove(&files_of(backend)->files, segment);
}

static void files_retire(struct kv_backend *backend, uint32_t segment, uint32_t slot,
                         const struct block_key *key) {
    static const struct block_key none;
    struct kv_files *files = &files_of(backend)->files;
    struct store_entry entry = store_format_entry(STORE_ENTRY_DEAD, key, &none, slot, 0);
    if (!files->segments[segment]->gone) kv_files_note(files, segment, &entry);
}

static uint64_t files_other_bytes(const struct kv_backend *backend) {
    const struct kv_files *files = &files_of(backend)->files;
    return kv_files_others_bytes(files->folder, "..", &files->format);
}

static bool files_drop_other(struct kv_backend *backend, int64_t before_ns) {
    const struct kv_files *files = &files_of(backend)->files;
    return kv_files_others_remove(files->folder, "..", &files->format, before_ns);
}

/* ---- opening ---- */

/* Raises the limit of open files, since each segment has two. The usual soft limit only protects
 * programs that use select(). */
static void allow_files(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit)) return; /* the old limit stays */
}

static uint32_t slots_of_segment(const struct kv_backend_options *o, size_t block_bytes) {
    uint64_t segment = o->segment_bytes ? o->segment_bytes : o->bytes_max / (2 * KV_SEGMENTS_MIN);
    if (segment > SEGMENT_BYTES_MAX) segment = SEGMENT_BYTES_MAX;
    if (segment > o->bytes_max / KV_SEGMENTS_MIN) segment = o->bytes_max / KV_SEGMENTS_MIN;
    uint64_t slots = segment > STORE_PAGE_BYTES ? (segment - STORE_PAGE_BYTES) / block_bytes : 0;
    return slots ? (uint32_t)slots : 1;
}

static void files_close(struct kv_backend *backend) {
    struct files_backend *own = files_of(backend);
    kv_files_io_close(own->io);
    if (own->active != KV_SEGMENT_NONE) kv_files_end(&own->files, own->active);
    kv_files_close(&own->files);
    free(own->pieces);
    free(own);
}

static enum status files_open(const struct kv_backend_options *o, struct kv_backend **backend_out,
                              struct error *error) {
    struct files_backend *own = calloc(1, sizeof *own);
    if (!own) return error_set(error, STATUS_NO_MEMORY, "no memory for the KV storage");
    own->listener = o->listener;
    own->active = KV_SEGMENT_NONE;
    own->slot_count = slots_of_segment(o, kv_format_block_bytes(&o->format));
    own->files.folder = -1;
    uint32_t depth = PIECES_MAX * kv_files_backend.depth;
    own->pieces = calloc(depth, sizeof *own->pieces);
    for (uint32_t i = 0; own->pieces && i < depth; i++) {
        own->pieces[i].next = own->free_piece;
        own->free_piece = &own->pieces[i];
    }
    allow_files();
    enum status status = STATUS_OK;
    if (!own->pieces) status = error_set(error, STATUS_NO_MEMORY, "no memory for the KV storage");
    if (!status)
        status = kv_files_open(&own->files, o->location, &o->format, o->faults, true, error);
    if (!status) status = kv_files_io_open(o->io, depth, o->event, o->faults, &own->io, error);
    if (status) {
        files_close(&own->backend);
        return status;
    }
    own->backend = (struct kv_backend){
        .calls = &kv_files_backend, .name = own->files.path, .io = kv_files_io_name(own->io)};
    kv_files_scan(&own->files, KV_SCAN_RECOVER, &own->listener);
    *backend_out = &own->backend;
    return STATUS_OK;
}

const struct kv_backend_calls kv_files_backend = {
    .read_bytes = (size_t)256 << 10,
    .depth = 64,
    .open = files_open,
    .close = files_close,
    .list = files_list,
    .usage = files_usage,
    .segment = files_segment,
    .get = files_get,
    .growth = files_growth,
    .put = files_put,
    .start = files_start,
    .take = files_take,
    .hold = files_hold,
    .release = files_release,
    .drop = files_drop,
    .retire = files_retire,
    .other_bytes = files_other_bytes,
    .drop_other = files_drop_other,
    .inspect = kv_files_check,
    .shrink = kv_files_check_shrink,
};
