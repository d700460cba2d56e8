/* SPDX-License-Identifier: Apache-2.0
 * Protects the way of blocks to disk: the bound of bytes holds and what is used stays, writes keep
 * to their rate, readers of a segment that goes lose nothing but hits, and a full or failing disk
 * turns writing off and nothing else.
 */
#include <errno.h>

#include "base/clock.h"
#include "kv_blocks.h"
#include "test_case.h"

TEST_AROUND(the_bound_holds_and_what_is_used_stays, set_up, tear_down) {
    struct kv_store_options options = options_of(KV_IO_AUTO, 256);
    struct kv_store *store = open_with(&options);
    for (uint32_t round = 0; round < 100; round++) {
        uint32_t used = round < 16 ? round + 1 : 16; /* one block of it among many others */
        if (round < 16) keep(store, 1, round, round + 1);
        keep(store, 100 + round, 0, 16);
        assert_loads(store, 1, used, used); /* again and again: it stays through 6 turnovers */
        bytes_seen = 0;
        for_files("", add_bytes);
        assert_true(bytes_seen <= options.disk_bytes);
    }
    struct kv_store_stats stats = kv_store_get_stats(store);
    assert_true(stats.removed_segments > 20 && stats.moved > 0);
    assert_true(stats.disk_blocks > 120 && stats.disk_blocks <= 256);
    assert_int_equal(stats.dropped + stats.damaged + stats.io_errors, 0);
    close_store(store);
    store = open_with(&options);
    assert_loads(store, 1, 16, 16);
    close_store(store);
}

/* One removes segments while another reads from them: at worst a shorter load. */
TEST_AROUND(removing_is_safe_for_readers, set_up, tear_down) {
    struct kv_store_options options = options_of(KV_IO_AUTO, 96);
    struct kv_store *writer = open_with(&options), *reader = open_with(&options);
    uint32_t read = 0;
    for (uint32_t round = 0; round < 60; round++) {
        keep(writer, round, 0, 12);
        if (round % 2) kv_store_flush(reader);
        for (uint32_t back = 0; back < 4 && back <= round; back++) {
            struct loaded loaded = load(reader, round - back, 12);
            assert_true(loaded.right);
            read += loaded.blocks;
        }
    }
    assert_true(read > 60 * 12);
    assert_int_equal(kv_store_get_stats(reader).damaged, 0);
    close_store(writer);
    close_store(reader);
}

/* What comes faster than it may be written is not stored: so many bytes a second, a quarter of them
 * at once, and no more wait than the queue takes. */
TEST_AROUND(writes_are_bounded, set_up, tear_down) {
    enum { RATE = 100, QUEUE = 8, ASKED = 200 };
    struct kv_store_options options = options_of(KV_IO_AUTO, 4096);
    options.write_queue_bytes = QUEUE * block_bytes();
    options.write_bytes_per_s = RATE * block_bytes();
    int64_t begun_ns = clock_now_ns();
    struct kv_store *store = open_with(&options);
    uint32_t taken = keep(store, 1, 0, ASKED); /* until they are written */
    double seconds = (double)(clock_now_ns() - begun_ns) * 1e-9;
    struct kv_store_stats stats = kv_store_get_stats(store);
    assert_true(taken >= QUEUE && taken <= RATE * (seconds + 0.25) + 1);
    assert_int_equal(stats.dropped, ASKED - taken);
    assert_int_equal(stats.disk_blocks, taken);
    close_store(store);
}

static void a_full_disk_turns_writing_off(int error) {
    struct faults faults = {0};
    struct kv_io_faults hook;
    struct kv_store_options options = with_faults(KV_IO_AUTO, &hook, &faults);
    struct kv_store *store = open_with(&options);
    keep(store, 1, 0, 20);
    __atomic_store_n(&faults.write_error, error, __ATOMIC_SEQ_CST);
    keep(store, 2, 0, 20);
    keep(store, 3, 0, 20);
    assert_false(kv_store_get_stats(store).writable);
    assert_int_equal(faults.lines, 1);
    assert_loads(store, 1, 20, 20);
    assert_loads(store, 2, 20, 0);
    __atomic_store_n(&faults.write_error, 0, __ATOMIC_SEQ_CST);
    close_store(store);
    store = open_with(&options);
    assert_loads(store, 1, 20, 20);
    keep(store, 2, 0, 20);
    assert_loads(store, 2, 20, 20);
    close_store(store);
    for_files("", remove_file);
}

/* A write that had begun before the disk was full, and ends well behind it, says nothing of the
 * disk. */
TEST_AROUND(a_write_that_ends_late_does_not_turn_writing_on, set_up, tear_down) {
    struct faults faults = {.write_fails = 5, .write_error = ENOSPC};
    struct kv_io_faults hook;
    struct kv_store_options options = with_faults(KV_IO_AUTO, &hook, &faults);
    struct kv_store *store = open_with(&options);
    keep(store, 1, 0, 60);
    kv_store_flush(store);
    assert_false(kv_store_get_stats(store).writable);
    assert_int_equal(faults.lines, 1);
    close_store(store);
}

TEST_AROUND(writing_may_fail, set_up, tear_down) {
    a_full_disk_turns_writing_off(ENOSPC);
    a_full_disk_turns_writing_off(EIO);
}
