/* SPDX-License-Identifier: Apache-2.0
 * The KV storage: what is kept comes back to the last byte, after a restart, in another process,
 * from memory or disk; what is damaged, torn, cut or another's never comes back; a full or failing
 * disk costs hits and nothing else.
 */
#include "host/storage/kv_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/random.h"
#include "host/storage/kv_store_files.h"
#include "kv_blocks.h"

static int tear_down(void **state) {
    (void)state;
    char folder[160];
    folder_of(folder);
    for_files("", remove_file);
    rmdir(folder);
    other = NULL;
    return rmdir(directory);
}

/* ---- whole ---- */

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
    struct kv_store_stats stats = kv_store_look(store);
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

static void a_block_comes_back_with_io_uring(void **state) {
    (void)state;
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

static void a_block_comes_back_with_threads(void **state) {
    (void)state;
    keeps_and_loads(KV_IO_THREADS);
}

static void host_memory_stands_in_front(void **state) {
    (void)state;
    struct kv_store_options options = options_of(KV_IO_AUTO, 1024);
    options.host_bytes = 16 * block_bytes();
    options.write_queue_bytes = 1;
    struct kv_store *store = open_with(&options);
    for (uint32_t i = 0; i < BLOCKS; i += 8)
        keep(store, 1, i, i + 8);
    struct kv_store_stats stats = kv_store_look(store);
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
    stats = kv_store_look(store);
    assert_int_equal(stats.host_blocks, 18);
    assert_int_equal(stats.blocks, 18);
    close_store(store);
}

/* Layer after layer: when a slice is said to be there, it is, in all blocks. */
static void layers_arrive_in_order(void **state) {
    (void)state;
    static const struct store_shape wide = {KV_ELEMENT_BF16, 576, 12,
                                            0}; /* 72 KiB a slice: 4 groups of 3 */
    struct kv_store_options options = options_of(KV_IO_AUTO, 0);
    options.shape = wide;
    size_t bytes = store_format_block_bytes(&wide), slice = store_format_slice_bytes(&wide);
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
        struct kv_keep_ask ask = {.key = keys[i], .position = i, .block = kept + i * bytes};
        assert_int_equal(kv_store_keep(store, &ask), KV_KEEP_TAKEN);
    }
    kv_store_settle(store);
    struct kv_load_ask ask = {.keys = keys, .blocks = blocks, .count = COUNT};
    struct kv_load *under_way = kv_store_load(store, &ask);
    for (uint32_t layer = 0; layer < wide.slice_count; layer++) {
        struct kv_load_state now = kv_load_wait(under_way, layer + 1);
        assert_true(now.slices > layer);
        assert_int_equal(now.blocks, COUNT);
        for (uint32_t i = 0; i < COUNT; i++) {
            size_t at = i * bytes + STORE_PAGE_BYTES + layer * slice;
            assert_memory_equal(memory + at, kept + at, slice);
        }
    }
    kv_load_end(under_way);
    close_store(store);
    free(kept);
    free(memory);
    other = &wide; /* its folder */
}

static void two_share_a_directory(void **state) {
    (void)state;
    struct kv_store_options options = options_of(KV_IO_AUTO, 1024);
    struct kv_store *a = open_with(&options), *b = open_with(&options);
    keep(a, 1, 0, 20);
    keep(b, 2, 0, 30);
    kv_store_settle(a);
    kv_store_settle(b);
    assert_loads(a, 2, BLOCKS, 30);
    assert_loads(b, 1, BLOCKS, 20);
    keep(b, 1, 0, 40); /* only what a has not written */
    kv_store_settle(a);
    assert_loads(a, 1, BLOCKS, 40);
    close_store(a);
    assert_loads(b, 1, BLOCKS, 40);
    struct kv_store *c = open_with(&options);
    keep(c, 3, 0, 10); /* in the segment that a left */
    kv_store_settle(b);
    assert_loads(b, 3, BLOCKS, 10);
    assert_int_equal(for_files(".kv", NULL), 2);
    close_store(b);
    close_store(c);
}

static void who_asks_sees_what_others_wrote(void **state) {
    (void)state;
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

/* ---- the bound ---- */

static uint64_t bytes_seen;
static void add_bytes(const char *path) {
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    bytes_seen += (uint64_t)about.st_size;
}

static void the_bound_holds_and_what_is_used_stays(void **state) {
    (void)state;
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
    struct kv_store_stats stats = kv_store_look(store);
    assert_true(stats.removed_segments > 20 && stats.moved > 0);
    assert_true(stats.disk_blocks > 120 && stats.disk_blocks <= 256);
    assert_int_equal(stats.dropped + stats.damaged + stats.io_errors, 0);
    close_store(store);
    store = open_with(&options);
    assert_loads(store, 1, 16, 16);
    close_store(store);
}

static void ignore_file(const char *path) {
}

static int count_segments(const struct store_shape *format) {
    other = format;
    int count = for_files(".kv", ignore_file);
    other = NULL;
    return count;
}

/* Of both formats' folders. */
static uint64_t bytes_of_both(const struct store_shape *second) {
    bytes_seen = 0;
    for_files("", add_bytes);
    other = second;
    for_files("", add_bytes);
    other = NULL;
    return bytes_seen;
}

/* Formats share one bound: what another model left goes first, being older, and what a process of
 * it writes to now stays. */
static void all_formats_share_the_bound(void **state) {
    (void)state;
    static const struct store_shape kin = {KV_ELEMENT_BF16, 36, 4, 0}; /* as large a block */
    struct kv_store_options options = options_of(KV_IO_AUTO, 128), kins = options;
    struct kv_store *store = open_with(&options);
    for (uint32_t i = 0; i < 8; i++)
        keep(store, i, 0, 12);
    close_store(store);
    int left = count_segments(&shape);
    assert_true(left > 4);
    kins.shape = kin;
    struct kv_store *second = open_with(&kins);
    for (uint32_t i = 0; i < 30; i++) {
        keep(second, 100 + i, 0, 12);
        assert_true(bytes_of_both(&kin) <= options.disk_bytes);
        assert_true(count_segments(&shape) <= left);
        left = count_segments(&shape);
        if (left > 0) assert_int_equal(kv_store_look(second).removed_segments, 0);
    }
    assert_int_equal(left, 0);
    assert_true(kv_store_look(second).removed_segments > 0);
    store = open_with(&options);
    keep(store, 50, 0, 3);
    for (uint32_t i = 0; i < 30; i++)
        keep(second, 200 + i, 0, 12);
    assert_loads(store, 50, 3, 3);
    assert_int_equal(count_segments(&shape), 1);
    assert_int_equal(kv_store_look(store).dropped + kv_store_look(second).dropped, 0);
    close_store(store);
    close_store(second);
    other = &kin;
    char folder[160];
    folder_of(folder);
    for_files("", remove_file);
    assert_int_equal(rmdir(folder), 0);
    other = NULL;
}

/* One removes segments while another reads from them: at worst a shorter load. */
static void removing_is_safe_for_readers(void **state) {
    (void)state;
    struct kv_store_options options = options_of(KV_IO_AUTO, 96);
    struct kv_store *writer = open_with(&options), *reader = open_with(&options);
    uint32_t read = 0;
    for (uint32_t round = 0; round < 60; round++) {
        keep(writer, round, 0, 12);
        if (round % 2) kv_store_settle(reader);
        for (uint32_t back = 0; back < 4 && back <= round; back++) {
            struct loaded loaded = load(reader, round - back, 12);
            assert_true(loaded.right);
            read += loaded.blocks;
        }
    }
    assert_true(read > 60 * 12);
    assert_int_equal(kv_store_look(reader).damaged, 0);
    close_store(writer);
    close_store(reader);
}

/* What comes faster than it may be written is not stored: so many bytes a second, a quarter of them
 * at once, and no more wait than the queue takes. */
static void writes_are_bounded(void **state) {
    (void)state;
    enum { RATE = 100, QUEUE = 8, ASKED = 200 };
    struct kv_store_options options = options_of(KV_IO_AUTO, 4096);
    options.write_queue_bytes = QUEUE * block_bytes();
    options.write_bytes_per_s = RATE * block_bytes();
    int64_t begun_ns = clock_now_ns();
    struct kv_store *store = open_with(&options);
    uint32_t taken = keep(store, 1, 0, ASKED); /* until they are written */
    double seconds = (double)(clock_now_ns() - begun_ns) * 1e-9;
    struct kv_store_stats stats = kv_store_look(store);
    assert_true(taken >= QUEUE && taken <= RATE * (seconds + 0.25) + 1);
    assert_int_equal(stats.dropped, ASKED - taken);
    assert_int_equal(stats.disk_blocks, taken);
    close_store(store);
}

/* ---- damage ---- */

/* Reads keep to their rate, too; that takes time and loses nothing. */
static void reads_are_bounded(void **state) {
    (void)state;
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

static void the_index_is_rebuilt(void **state) {
    (void)state;
    struct kv_store_options options = options_of(KV_IO_AUTO, 1024);
    struct kv_store *store = open_with(&options);
    keep(store, 1, 0, BLOCKS);
    close_store(store);
    assert_true(for_files(".idx", remove_file) >= 1);
    for (int i = 0; i < 2; i++) { /* from the header pages, then from the new sidecar */
        store = open_with(&options);
        assert_int_equal(found(store, 1, BLOCKS), BLOCKS);
        assert_loads(store, 1, BLOCKS, BLOCKS);
        close_store(store);
        assert_true(for_files(".idx", NULL) >= 1);
    }
}

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
    size_t rows = (size_t)KV_BLOCK_TOKENS * shape.width * 2;
    for (int i = 0; i < 1000; i++) {
        uint64_t at = roll(MANY * block_bytes()), within = at % block_bytes();
        bool padding = within >= STORE_PAGE_BYTES &&
                       (within - STORE_PAGE_BYTES) % store_format_slice_bytes(&shape) >= rows;
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
            struct kv_keep_ask ask = {.key = key_of(i + k, 0), .block = block};
            assert_int_equal(kv_store_keep(store, &ask), KV_KEEP_TAKEN);
            kv_store_settle(store);
        }
    assert_int_equal(kv_store_look(store).disk_blocks, MANY);
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

static void flipped_bits_are_all_found(void **state) {
    (void)state;
    struct kv_store *store = open_many();
    keep_many(store);
    assert_int_equal(for_files(".kv", flip_data), 1);
    uint32_t damaged = 0;
    for (uint32_t i = 0; i < MANY; i++)
        damaged += damaged_slots[i];
    assert_true(damaged > 300);
    assert_int_equal(count_right(store), MANY - damaged);
    assert_int_equal(kv_store_look(store).damaged, damaged);
    assert_int_equal(count_right(store), MANY - damaged);
    assert_int_equal(kv_store_look(store).damaged, damaged); /* they are not looked at again */
    close_store(store);
    store = open_many(); /* nor after a restart */
    assert_int_equal(kv_store_look(store).disk_blocks, MANY - damaged);
    assert_int_equal(count_right(store), MANY - damaged);
    assert_int_equal(kv_store_look(store).damaged, 0);
    close_store(store);
}

static void flip_anywhere(const char *path) {
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    for (int i = 0; i < 500; i++)
        flip_at(path, roll((uint64_t)about.st_size), (int)roll(8));
}

/* Both files, heads included. */
static void no_flipped_bit_becomes_an_answer(void **state) {
    (void)state;
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

static void halve(const char *path) {
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(truncate(path, about.st_size / 2 + 100), 0);
}

static void cut_files_lose_what_was_cut(void **state) {
    (void)state;
    struct kv_store_options options = options_of(KV_IO_AUTO, 1024);
    options.segment_bytes = 128 * block_bytes();
    struct kv_store *store = open_with(&options);
    keep(store, 1, 0, BLOCKS);
    close_store(store);
    assert_int_equal(for_files(".kv", halve), 1);
    store = open_with(&options);
    struct loaded loaded = load(store, 1, BLOCKS);
    assert_true(loaded.right && loaded.blocks >= BLOCKS / 2 - 2 && loaded.blocks <= BLOCKS / 2);
    keep(store, 1, 0, BLOCKS);
    assert_true(load(store, 1, BLOCKS).right);
    close_store(store);
}

/* A file of another block in the place of ours: whole, but not what was asked for. */
static void another_block_is_none(void **state) {
    (void)state;
    struct kv_store_options options = options_of(KV_IO_AUTO, 1024);
    struct kv_files files;
    struct error error;
    struct kv_store *store = open_with(&options);
    keep(store, 1, 0, 2);
    close_store(store);
    assert_int_equal(kv_store_files_open(&files, directory, &shape, NULL, &error), STATUS_OK);
    char path[300], name[64];
    folder_of(path);
    DIR *list = opendir(path);
    for (struct dirent *entry; (entry = readdir(list));)
        if (strstr(entry->d_name, ".kv")) snprintf(name, sizeof name, "%.60s", entry->d_name);
    closedir(list);
    snprintf(path + strlen(path), 80, "/%s", name);
    char *blocks = take_blocks(2); /* the two change places */
    int file = open(path, O_RDWR);
    assert_int_equal(pread(file, blocks, 2 * block_bytes(), STORE_PAGE_BYTES),
                     (ssize_t)(2 * block_bytes()));
    assert_int_equal(pwrite(file, blocks + block_bytes(), block_bytes(), STORE_PAGE_BYTES),
                     (ssize_t)block_bytes());
    assert_int_equal(pwrite(file, blocks, block_bytes(), (off_t)(STORE_PAGE_BYTES + block_bytes())),
                     (ssize_t)block_bytes());
    close(file);
    free(blocks);
    kv_store_files_close(&files);
    store = open_with(&options);
    assert_int_equal(found(store, 1, 2), 2);
    assert_loads(store, 1, 2, 0);
    assert_true(kv_store_look(store).damaged >= 1);
    close_store(store);
}

/* ---- misfortunes ---- */

struct faults {
    int write_error, read_error;
    bool shorten;
    int64_t dies_after; /* transfers; 0: never */
    int64_t transfers;
    int lines;
};

static int misfortune(void *context, const struct kv_io_op *op, size_t *bytes) {
    struct faults *faults = context;
    int64_t transfers = __atomic_add_fetch(&faults->transfers, 1, __ATOMIC_SEQ_CST);
    if (faults->dies_after && transfers > faults->dies_after) kill(getpid(), SIGKILL);
    if (faults->shorten && *bytes > 4096 && transfers % 3) *bytes = 4096;
    return __atomic_load_n(op->write ? &faults->write_error : &faults->read_error,
                           __ATOMIC_SEQ_CST);
}

static void count_line(void *context, const char *line) {
    struct faults *faults = context;
    faults->lines++;
    assert_non_null(strstr(line, "KV storage"));
}

static struct kv_store_options with_faults(enum kv_io_kind io, struct kv_io_faults *hook,
                                           struct faults *faults) {
    struct kv_store_options options = options_of(io, 1024);
    *hook = (struct kv_io_faults){misfortune, faults};
    options.faults = hook;
    options.log = count_line;
    options.log_context = faults;
    return options;
}

static void short_transfers_are_continued(void **state) {
    (void)state;
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

static void a_full_disk_turns_writing_off(int error) {
    struct faults faults = {0};
    struct kv_io_faults hook;
    struct kv_store_options options = with_faults(KV_IO_AUTO, &hook, &faults);
    struct kv_store *store = open_with(&options);
    keep(store, 1, 0, 20);
    __atomic_store_n(&faults.write_error, error, __ATOMIC_SEQ_CST);
    keep(store, 2, 0, 20);
    keep(store, 3, 0, 20);
    assert_false(kv_store_look(store).writable);
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

static void writing_may_fail(void **state) {
    (void)state;
    a_full_disk_turns_writing_off(ENOSPC);
    a_full_disk_turns_writing_off(EIO);
}

static void reading_may_fail(void **state) {
    (void)state;
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
    assert_true(kv_store_look(store).io_errors > 0);
    close_store(store);
}

enum { KILLS = 160 };

/* A process is killed between any two of its transfers; the next finds what is whole. Who is killed
 * while it makes a segment leaves a file without a head, which each later one looks at once. */
static void a_killed_process_leaves_what_it_wrote(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    print_message("# TSan knows no threads behind a fork\n");
    return;
#endif
    for (int64_t dies_after = 1; dies_after < KILLS; dies_after += dies_after < 20 ? 1 : 9) {
        pid_t child = fork();
        if (child == 0) {
            struct faults faults = {.dies_after = dies_after};
            struct kv_io_faults hook;
            struct kv_store_options options = with_faults(KV_IO_THREADS, &hook, &faults);
            struct kv_store *store;
            if (kv_store_open(&options, &store, NULL)) _exit(2);
            keep(store, (uint32_t)dies_after, 0, BLOCKS);
            _exit(3);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    struct kv_store_options options = options_of(KV_IO_AUTO, 4096);
    struct kv_store *store = open_with(&options);
    uint32_t whole = 0;
    for (uint32_t sequence = 1; sequence < KILLS; sequence++) {
        struct loaded loaded = load(store, sequence, BLOCKS);
        assert_true(loaded.right);
        whole += loaded.blocks;
    }
    assert_true(whole > 50);
    assert_int_equal(kv_store_look(store).damaged, 0);
    close_store(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_block_comes_back_with_io_uring, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_block_comes_back_with_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(host_memory_stands_in_front, set_up, tear_down),
        cmocka_unit_test_setup_teardown(layers_arrive_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_share_a_directory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_asks_sees_what_others_wrote, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_bound_holds_and_what_is_used_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_formats_share_the_bound, set_up, tear_down),
        cmocka_unit_test_setup_teardown(removing_is_safe_for_readers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(writes_are_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reads_are_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_index_is_rebuilt, set_up, tear_down),
        cmocka_unit_test_setup_teardown(flipped_bits_are_all_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_flipped_bit_becomes_an_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cut_files_lose_what_was_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_block_is_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(short_transfers_are_continued, set_up, tear_down),
        cmocka_unit_test_setup_teardown(writing_may_fail, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reading_may_fail, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_killed_process_leaves_what_it_wrote, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
