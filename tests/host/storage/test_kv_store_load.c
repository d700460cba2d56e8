/* SPDX-License-Identifier: Apache-2.0
 * Protects loads: layers arrive in order and at no more than their rate; what is damaged, another's
 * or unreadable never comes back, and costs what lies behind it.
 */
#include <errno.h>
#include <fcntl.h>

#include "base/clock.h"
#include "base/random.h"
#include "kv_blocks.h"
#include "test_case.h"

/* Layer after layer: when a slice is said to be there, it is, in all blocks. */
TEST_AROUND(layers_arrive_in_order, set_up, tear_down) {
    static const struct kv_format wide =
        KV_FORMAT_MLA(KV_ELEMENT_BF16, 576, 12, 0); /* 72 KiB a slice: 4 groups of 3 */
    struct kv_store_options options = options_of(KV_IO_AUTO, 0);
    options.format = wide;
    size_t bytes = kv_format_block_bytes(&wide), slice = kv_format_slice_bytes(&wide);
    options.disk_bytes = 64 * bytes;
    struct kv_store *store = open_with(&options);
    enum { COUNT = 6 };
    char *kept = aligned_alloc(STORE_PAGE_BYTES, COUNT * bytes), *memory;
    memory = aligned_alloc(STORE_PAGE_BYTES, COUNT * bytes);
    assert_true(kept && memory);
    struct block_key keys[COUNT];
    void *blocks[COUNT];
    memset(memory, 0, COUNT * bytes);
    for (uint32_t i = 0; i < COUNT; i++) {
        for (size_t k = 0; k < bytes; k++)
            kept[i * bytes + k] = (char)(k % 253 + i + k / slice);
        keys[i] = key_of(9, i);
        blocks[i] = memory + i * bytes;
        struct kv_put_request ask = {.key = keys[i], .position = i, .block = kept + i * bytes};
        assert_int_equal(kv_store_put(store, &ask), KV_PUT_QUEUED);
    }
    kv_store_flush(store);
    struct kv_load_request ask = {.keys = keys, .blocks = blocks, .count = COUNT};
    struct kv_load *under_way = kv_store_load(store, &ask);
    for (uint32_t layer = 0; layer < wide.slice_count; layer++) {
        struct kv_load_state now = kv_store_load_wait(under_way, layer + 1, INT64_MAX);
        assert_true(now.slices > layer);
        assert_int_equal(now.blocks, COUNT);
        for (uint32_t i = 0; i < COUNT; i++) {
            size_t at = i * bytes + STORE_PAGE_BYTES + layer * slice;
            assert_memory_equal(memory + at, kept + at, slice);
        }
    }
    kv_store_load_end(under_way);
    close_store(store);
    free(kept);
    free(memory);
    other = &wide; /* its folder */
}

/* Reads keep to their rate, too; that takes time and loses nothing. */
TEST_AROUND(reads_are_bounded, set_up, tear_down) {
    struct kv_store_options options = options_of(KV_IO_AUTO, 1024);
    struct kv_store *store = open_with(&options);
    keep(store, 1, 0, BLOCKS);
    close_store(store);
    uint64_t bytes = BLOCKS * block_bytes();
    options.read_bytes_per_s = 4 * bytes; /* a quarter of a second, but for what was saved up */
    store = open_with(&options);
    int64_t begun_ns = clock_now_ns();
    assert_loads(store, 1, BLOCKS, BLOCKS);
    assert_true(clock_now_ns() - begun_ns > 200000000);
    close_store(store);
}

TEST_AROUND(reading_may_fail, set_up, tear_down) {
    struct faults faults = {0};
    struct kv_io_faults hook;
    struct kv_store_options options = with_faults(KV_IO_AUTO, &hook, &faults);
    struct kv_store *store = open_with(&options);
    keep(store, 1, 0, 20);
    __atomic_store_n(&faults.read_error, EIO, __ATOMIC_SEQ_CST);
    assert_loads(store, 1, 20, 0);
    __atomic_store_n(&faults.read_error, 0, __ATOMIC_SEQ_CST);
    keep(store, 1, 0, 20); /* what was lost is stored again */
    assert_loads(store, 1, 20, 20);
    assert_true(kv_store_get_stats(store).io_errors > 0);
    close_store(store);
}

/* The first two blocks change places. */
static void swap_blocks(const char *path) {
    size_t bytes = block_bytes();
    char *blocks = take_blocks(2);
    int file = open(path, O_RDWR);
    assert_int_equal(pread(file, blocks, 2 * bytes, STORE_PAGE_BYTES), (ssize_t)(2 * bytes));
    assert_int_equal(pwrite(file, blocks + bytes, bytes, STORE_PAGE_BYTES), (ssize_t)bytes);
    assert_int_equal(pwrite(file, blocks, bytes, (off_t)(STORE_PAGE_BYTES + bytes)),
                     (ssize_t)bytes);
    close(file);
    free(blocks);
}

/* Another block in the place of ours: whole, but not what was asked for. */
TEST_AROUND(another_block_is_none, set_up, tear_down) {
    struct kv_store_options options = options_of(KV_IO_AUTO, 1024);
    struct kv_store *store = open_with(&options);
    keep(store, 1, 0, 2);
    close_store(store);
    assert_int_equal(for_files(".kv", swap_blocks), 1);
    store = open_with(&options);
    assert_int_equal(found(store, 1, 2), 2);
    assert_loads(store, 1, 2, 0);
    assert_true(kv_store_get_stats(store).damaged >= 1);
    close_store(store);
}

/* ---- damage ---- */

/* 0..below-1, the same in every run. */
static uint64_t roll(uint64_t below) {
    static uint32_t rolls;
    uint32_t counter[4] = {rolls++, 0, 0, 0}, key[2] = {7, 9}, out[4];
    random_philox(counter, key, out);
    return ((uint64_t)out[0] << 32 | out[1]) % below;
}

static void flip_at(const char *path, uint64_t at, int bit) {
    int file = open(path, O_RDWR);
    uint8_t byte;
    assert_true(file >= 0);
    assert_int_equal(pread(file, &byte, 1, (off_t)at), 1);
    byte ^= (uint8_t)(1 << bit);
    assert_int_equal(pwrite(file, &byte, 1, (off_t)at), 1);
    close(file);
}

#define MANY 1024
static uint8_t damaged_slots[MANY];

/* A thousand bits of a data file; notes which blocks that damages. */
static void flip_data(const char *path) {
    size_t rows = kv_format_filled_bytes(&format, KV_BLOCK_TOKENS);
    for (int i = 0; i < 1000; i++) {
        uint64_t at = roll(MANY * block_bytes()), within = at % block_bytes();
        bool padding = within >= STORE_PAGE_BYTES &&
                       (within - STORE_PAGE_BYTES) % kv_format_slice_bytes(&format) >= rows;
        flip_at(path, STORE_PAGE_BYTES + at, (int)roll(8));
        if (!padding) damaged_slots[at / block_bytes()] = 1;
    }
}

static struct kv_store *open_many(void) {
    struct kv_store_options options = options_of(KV_IO_AUTO, 8 * MANY + 8);
    options.segment_bytes = STORE_PAGE_BYTES + MANY * block_bytes();
    return open_with(&options);
}

static void keep_many(struct kv_store *store) {
    for (uint32_t i = 0; i < MANY; i += 256) /* each a sequence of its own */
        for (uint32_t k = 0; k < 256; k++) {
            static char *block;
            if (!block) block = take_blocks(1);
            fill(block, i + k, 0);
            struct kv_put_request ask = {.key = key_of(i + k, 0), .block = block};
            assert_int_equal(kv_store_put(store, &ask), KV_PUT_QUEUED);
            kv_store_flush(store);
        }
    assert_int_equal(kv_store_get_stats(store).disk_blocks, MANY);
}

static uint32_t count_right(struct kv_store *store) {
    uint32_t right = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        struct loaded loaded = load(store, i, 1);
        assert_true(loaded.right);
        right += loaded.blocks;
    }
    return right;
}

TEST_AROUND(flipped_bits_are_all_found, set_up, tear_down) {
    struct kv_store *store = open_many();
    keep_many(store);
    assert_int_equal(for_files(".kv", flip_data), 1);
    uint32_t damaged = 0;
    for (uint32_t i = 0; i < MANY; i++)
        damaged += damaged_slots[i];
    assert_true(damaged > 300);
    assert_int_equal(count_right(store), MANY - damaged);
    assert_int_equal(kv_store_get_stats(store).damaged, damaged);
    assert_int_equal(count_right(store), MANY - damaged);
    assert_int_equal(kv_store_get_stats(store).damaged, damaged); /* they are not looked at again */
    close_store(store);
    store = open_many(); /* nor after a restart */
    assert_int_equal(kv_store_get_stats(store).disk_blocks, MANY - damaged);
    assert_int_equal(count_right(store), MANY - damaged);
    assert_int_equal(kv_store_get_stats(store).damaged, 0);
    close_store(store);
}

static void flip_anywhere(const char *path) {
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    for (int i = 0; i < 500; i++)
        flip_at(path, roll((uint64_t)about.st_size), (int)roll(8));
}

/* Both files, heads included. */
TEST_AROUND(no_flipped_bit_becomes_an_answer, set_up, tear_down) {
    struct kv_store *store = open_many();
    keep_many(store);
    close_store(store);
    assert_int_equal(for_files("", flip_anywhere), 2);
    store = open_many();
    uint32_t right = count_right(store);
    assert_true(right < MANY);
    close_store(store);
    store = open_many();
    assert_int_equal(count_right(store), right);
    close_store(store);
}
