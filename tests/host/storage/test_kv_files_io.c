/* SPDX-License-Identifier: Apache-2.0
 * Protects transfers to and from disk, by io_uring and by threads: all bytes come back, also where
 * the system transfers fewer than it was asked to.
 */
#include "kv_blocks.h"
#include "test_case.h"

static void keeps_and_loads(enum kv_io_kind io) {
    struct kv_store_options options = options_of(io, 1024);
    struct kv_store *store = open_with(&options);
    assert_int_equal(found(store, 1, BLOCKS), 0);
    assert_int_equal(keep(store, 1, 0, BLOCKS), BLOCKS);
    assert_int_equal(keep(store, 1, 0, BLOCKS), 0); /* known */
    assert_int_equal(keep(store, 2, 0, 5), 5);
    assert_int_equal(found(store, 1, BLOCKS), BLOCKS);
    assert_int_equal(found(store, 2, BLOCKS), 5);
    assert_int_equal(found(store, 3, BLOCKS), 0);
    assert_loads(store, 1, BLOCKS, BLOCKS);
    assert_loads(store, 2, BLOCKS, 5);
    assert_loads(store, 3, BLOCKS, 0);
    struct kv_store_stats stats = kv_store_get_stats(store);
    assert_int_equal(stats.disk_blocks, BLOCKS + 5);
    assert_int_equal(stats.host_blocks, 0);
    assert_int_equal(stats.loaded_disk, BLOCKS + 5);
    assert_int_equal(stats.dropped + stats.damaged + stats.io_errors, 0);
    close_store(store);
    store = open_with(&options);
    assert_int_equal(found(store, 1, BLOCKS), BLOCKS);
    assert_loads(store, 1, BLOCKS, BLOCKS);
    keep(store, 4, 0, 3); /* into what the other left unfilled */
    assert_loads(store, 4, 3, 3);
    close_store(store);
}

TEST_AROUND(a_block_comes_back_with_io_uring, set_up, tear_down) {
    struct kv_store_options options = options_of(KV_IO_URING, 1024);
    struct kv_store *store;
    struct error error;
    if (kv_store_open(&options, &store, &error) == STATUS_UNSUPPORTED) {
        print_message("# no io_uring here: %s\n", error.text); /* TAP's skip() reads as failure */
        return;
    }
    close_store(store);
    keeps_and_loads(KV_IO_URING);
}

TEST_AROUND(a_block_comes_back_with_threads, set_up, tear_down) {
    keeps_and_loads(KV_IO_THREADS);
}

TEST_AROUND(short_transfers_are_continued, set_up, tear_down) {
    for (int io = KV_IO_AUTO; io <= KV_IO_THREADS; io += KV_IO_THREADS) {
        struct faults faults = {.shorten = true};
        struct kv_io_faults hook;
        struct kv_store_options options = with_faults((enum kv_io_kind)io, &hook, &faults);
        struct kv_store *store = open_with(&options);
        keep(store, (uint32_t)io, 0, BLOCKS);
        assert_loads(store, (uint32_t)io, BLOCKS, BLOCKS);
        close_store(store);
    }
}
