/* SPDX-License-Identifier: Apache-2.0
 * The KV storage as others see it: what is kept comes back from memory or disk, and who shares a
 * directory finds what the others wrote.
 */
#include "kv_blocks.h"
#include "test_case.h"

TEST_AROUND(host_memory_stands_in_front, set_up, tear_down) {
    struct kv_store_options options = options_of(KV_IO_AUTO, 1024);
    options.host_bytes = 16 * block_bytes();
    options.write_queue_bytes = 1;
    struct kv_store *store = open_with(&options);
    for (uint32_t i = 0; i < BLOCKS; i += 8)
        keep(store, 1, i, i + 8);
    struct kv_store_stats stats = kv_store_get_stats(store);
    assert_int_equal(stats.disk_blocks, BLOCKS);
    assert_int_equal(stats.host_blocks, 18);
    assert_loads(store, 1, 8, 8);
    assert_int_equal(load(store, 1, 8).host, 8); /* they came into memory with the first load */
    assert_loads(store, 1, BLOCKS, BLOCKS);
    close_store(store);
    options.directory = NULL; /* memory alone */
    store = open_with(&options);
    keep(store, 1, 0, 8);
    assert_loads(store, 1, BLOCKS, 8);
    assert_int_equal(load(store, 1, 8).host, 8);
    for (uint32_t sequence = 2; sequence < 10; sequence++)
        keep(store, sequence, 0, 8);
    stats = kv_store_get_stats(store);
    assert_int_equal(stats.host_blocks, 18);
    assert_int_equal(stats.blocks, 18);
    close_store(store);
}

TEST_AROUND(two_share_a_directory, set_up, tear_down) {
    struct kv_store_options options = options_of(KV_IO_AUTO, 1024);
    struct kv_store *a = open_with(&options), *b = open_with(&options);
    keep(a, 1, 0, 20);
    keep(b, 2, 0, 30);
    kv_store_flush(a);
    kv_store_flush(b);
    assert_loads(a, 2, BLOCKS, 30);
    assert_loads(b, 1, BLOCKS, 20);
    keep(b, 1, 0, 40); /* only what a has not written */
    kv_store_flush(a);
    assert_loads(a, 1, BLOCKS, 40);
    close_store(a);
    assert_loads(b, 1, BLOCKS, 40);
    struct kv_store *c = open_with(&options);
    keep(c, 3, 0, 10); /* in the segment that a left */
    kv_store_flush(b);
    assert_loads(b, 3, BLOCKS, 10);
    assert_int_equal(for_files(".kv", NULL), 2);
    close_store(b);
    close_store(c);
}

TEST_AROUND(who_asks_sees_what_others_wrote, set_up, tear_down) {
    struct kv_store_options options = options_of(KV_IO_AUTO, 1024);
    options.scan_ms = 1000000; /* it does not look by itself */
    struct kv_store *a = open_with(&options), *b = open_with(&options);
    keep(a, 1, 0, 20);
    assert_int_equal(found(b, 1, BLOCKS), 0);
    kv_store_refresh(b, (int64_t)60000000000);
    assert_int_equal(found(b, 1, BLOCKS), 20);
    keep(a, 1, 20, 30);
    kv_store_refresh(b, (int64_t)60000000000);
    assert_loads(b, 1, BLOCKS, 30);
    close_store(a);
    close_store(b);
}
