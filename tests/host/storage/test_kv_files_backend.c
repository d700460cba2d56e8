/* SPDX-License-Identifier: Apache-2.0
 * The rules of host/storage/kv_backend.h, which the files keep, and another backend as well: so a
 * store works the same over each of them.
 */
#include "host/storage/kv_files_backend.h"

#include <poll.h>
#include <sys/eventfd.h>

#include "kv_blocks.h"
#include "memory_backend.h"
#include "test_case.h"

static const struct kv_backend_calls *const backends[] = {&kv_files_backend, &memory_calls};

struct reports { /* of a listener */
    uint32_t blocks, dead;
    struct block_key key; /* of the last block */
};

static void note_report(void *context, uint32_t segment, const struct store_entry *entry) {
    struct reports *reports = context;
    reports->blocks += entry->kind == STORE_ENTRY_BLOCK;
    reports->dead += entry->kind == STORE_ENTRY_DEAD;
    if (entry->kind == STORE_ENTRY_BLOCK) reports->key = entry->key;
}

static void ignore_gone(void *context, uint32_t segment) {
}

static void ignore_line(const void *context, enum log_level level, const char *line, ...) {
}

static int event = -1;

static struct kv_backend *open_backend(const struct kv_backend_calls *calls,
                                       struct reports *reports) {
    struct kv_backend *backend;
    struct error error = {""};
    if (event < 0) event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct kv_backend_options options = {
        .location = directory,
        .format = format,
        .bytes_max = 256 * block_bytes(),
        .segment_bytes = 9 * block_bytes(),
        .event = event,
        .listener = {note_report, ignore_gone, ignore_line, reports}};
    *reports = (struct reports){0};
    enum status status = calls->open(&options, &backend, &error);
    if (status) print_message("%s\n", error.text);
    assert_int_equal(status, STATUS_OK);
    return backend;
}

static void end_op(struct kv_backend *backend, const struct kv_backend_op *op) {
    struct pollfd file = {event, POLLIN, 0};
    const struct kv_backend_op *ended;
    backend->calls->start(backend);
    while (!(ended = backend->calls->take(backend)))
        poll(&file, 1, 1000);
    assert_ptr_equal(ended, op);
    assert_int_equal(op->error, 0);
    assert_int_equal(op->done, op->bytes);
}

/* Puts a sealed block of a sequence; the operation has its location. */
static struct kv_backend_op put_block(struct kv_backend *backend, char *memory, uint32_t sequence,
                                      uint32_t position) {
    struct error error = {""};
    struct kv_backend_op op = {.is_put = true,
                               .bytes = block_bytes(),
                               .memory = memory,
                               .key = key_of(sequence, position),
                               .parent = key_of(sequence, position - 1),
                               .position = position};
    fill(memory, sequence, position);
    store_format_seal(memory, memory, &format, &op.key, &op.parent, position);
    assert_int_equal(backend->calls->put(backend, &op, &error), STATUS_OK);
    end_op(backend, &op);
    return op;
}

static void read_range(struct kv_backend *backend, const struct kv_backend_op *put, char *memory,
                       size_t offset, size_t bytes) {
    struct kv_backend_op op = {.segment = put->segment,
                               .slot = put->slot,
                               .offset = offset,
                               .bytes = bytes,
                               .memory = memory + offset};
    backend->calls->get(backend, &op);
    end_op(backend, &op);
}

TEST_AROUND(a_block_is_read_back_range_by_range, set_up, tear_down) {
    for (uint32_t i = 0; i < ARRAY_COUNT(backends); i++) {
        struct reports reports;
        struct kv_backend *backend = open_backend(backends[i], &reports);
        char *memory = take_blocks(2), *read = memory + block_bytes();
        struct kv_backend_op put = put_block(backend, memory, 1, 5);
        for (uint32_t slice = format.slice_count; slice-- > 0;)
            read_range(backend, &put, read, kv_format_slice_offset(&format, slice),
                       kv_format_slice_bytes(&format));
        read_range(backend, &put, read, 0, STORE_PAGE_BYTES);
        assert_memory_equal(read, memory, block_bytes());
        backend->calls->close(backend);
        backend = open_backend(backends[i], &reports);
        assert_int_equal(reports.blocks, 1);
        assert_true(block_key_equal(&reports.key, &put.key));
        backend->calls->close(backend);
        free(memory);
    }
    memory_clear();
}

TEST_AROUND(what_is_held_can_be_read_after_it_is_dropped, set_up, tear_down) {
    for (uint32_t i = 0; i < ARRAY_COUNT(backends); i++) {
        struct reports reports;
        struct kv_backend_segment segment;
        struct kv_backend *backend = open_backend(backends[i], &reports);
        char *memory = take_blocks(2), *read = memory + block_bytes();
        assert_true(backend->calls->growth(backend) >= block_bytes());
        struct kv_backend_op first = put_block(backend, memory, 1, 0), next = first;
        assert_int_equal(backend->calls->growth(backend), 0); /* its segment has room */
        assert_false(backend->calls->drop(backend, first.segment));
        for (uint32_t position = 1; next.segment == first.segment; position++)
            next = put_block(backend, memory, 1, position);
        assert_true(backend->calls->segment(backend, first.segment, &segment));
        assert_true(segment.movable && segment.bytes >= segment.slot_count * block_bytes());
        uint64_t bytes = backend->calls->usage(backend).bytes;
        backend->calls->hold(backend, first.segment);
        assert_true(backend->calls->drop(backend, first.segment));
        assert_true(backend->calls->usage(backend).bytes < bytes);
        read_range(backend, &first, read, 0, block_bytes());
        fill(memory, 1, 0);
        store_format_seal(memory, memory, &format, &first.key, &first.parent, 0);
        assert_memory_equal(read, memory, block_bytes());
        backend->calls->release(backend, first.segment);
        backend->calls->close(backend);
        backend = open_backend(backends[i], &reports);
        assert_int_equal(reports.blocks, 1); /* of the second segment */
        backend->calls->close(backend);
        free(memory);
    }
    memory_clear();
}

TEST_AROUND(what_is_retired_is_no_block_any_more, set_up, tear_down) {
    for (uint32_t i = 0; i < ARRAY_COUNT(backends); i++) {
        struct reports reports;
        struct kv_backend *backend = open_backend(backends[i], &reports);
        char *memory = take_blocks(1);
        put_block(backend, memory, 1, 0);
        struct kv_backend_op put = put_block(backend, memory, 1, 1);
        backend->calls->retire(backend, put.segment, put.slot, &put.key);
        backend->calls->close(backend);
        backend = open_backend(backends[i], &reports);
        assert_int_equal(reports.dead, 1); /* after the block, if that is reported, too */
        backend->calls->close(backend);
        free(memory);
    }
    memory_clear();
}

/* Bound, moves, loads and damage over a backend that has no files. */
TEST_AROUND(a_store_needs_no_files, set_up, tear_down) {
    struct kv_store_options options = options_of(KV_IO_AUTO, 256);
    options.backend = &memory_calls;
    struct kv_store *store = open_with(&options);
    for (uint32_t round = 0; round < 60; round++) {
        uint32_t used = round < 16 ? round + 1 : 16;
        if (round < 16) keep(store, 1, round, round + 1);
        keep(store, 100 + round, 0, 16);
        assert_loads(store, 1, used, used);
        assert_true(kv_store_get_stats(store).disk_bytes <= options.disk_bytes);
    }
    struct kv_store_stats stats = kv_store_get_stats(store);
    assert_true(stats.removed_segments > 10 && stats.moved > 0);
    assert_int_equal(stats.dropped + stats.damaged + stats.io_errors, 0);
    close_store(store);
    store = open_with(&options);
    assert_loads(store, 1, 16, 16);
    close_store(store);
    for (uint32_t i = 0; i < MEMORY_SEGMENTS; i++)
        for (uint32_t slot = 0; slot < memory_segments[i].count; slot++)
            memory_segments[i].blocks[(slot + 1) * block_bytes() - KV_SLICE_ALIGN] ^= 1;
    store = open_with(&options);
    assert_loads(store, 1, 16, 0);
    assert_true(kv_store_get_stats(store).damaged > 0);
    close_store(store);
    assert_int_equal(for_files("", NULL), 0);
    memory_clear();
}
