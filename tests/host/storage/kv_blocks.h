/* SPDX-License-Identifier: Apache-2.0
 * For tests of the KV storage: a directory of their own, and blocks whose bytes follow from their
 * sequence and position, so that what is loaded can be compared with what was kept.
 */
#pragma once

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/sha256.h"
#include "host/storage/kv_files_io.h"
#include "host/storage/kv_store.h"

#define LONG_NS 60000000000
#define BLOCKS 64 /* in a test's sequence */

/* Three layers and an MTP layer; a slice's rows do not fill its pages, nor do its index keys. */
static const struct kv_format format = {
    4, 1, 2, {{KV_ELEMENT_BF16, 28, 1}, {KV_ELEMENT_E4M3, 32, 1}}};

static char directory[64];
static const struct kv_format *other; /* than `format`, of the folder in use; NULL: it is that */

static inline int set_up(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%.40s/kv_store_XXXXXX", base ? base : "/tmp");
    return mkdtemp(directory) ? 0 : -1;
}

static inline void folder_of(char out[160]) {
    char name[STORE_NAME_BYTES];
    store_format_folder(other ? other : &format, name);
    snprintf(out, 160, "%s/%s", directory, name);
}

/* Calls `each` with every file's path in the store's folder whose name ends so. */
static inline int for_files(const char *suffix, void (*each)(const char *path)) {
    char folder[160], path[480];
    int count = 0;
    folder_of(folder);
    DIR *list = opendir(folder);
    if (!list) return 0;
    for (struct dirent *entry; (entry = readdir(list));) {
        size_t length = strlen(entry->d_name), tail = strlen(suffix);
        if (entry->d_name[0] == '.' || length < tail ||
            strcmp(entry->d_name + length - tail, suffix) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (each) each(path);
        count++;
    }
    closedir(list);
    return count;
}

static inline void remove_file(const char *path) {
    assert_int_equal(unlink(path), 0);
}

static inline int tear_down(void **state) {
    (void)state;
    char folder[160];
    folder_of(folder);
    for_files("", remove_file);
    rmdir(folder);
    other = NULL;
    return rmdir(directory);
}

static uint64_t bytes_seen;

static inline void add_bytes(const char *path) {
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    bytes_seen += (uint64_t)about.st_size;
}

/* ---- blocks ---- */

static inline size_t block_bytes(void) {
    return kv_format_block_bytes(&format);
}

static inline struct block_key key_of(uint32_t sequence, uint32_t position) {
    struct block_key key;
    uint32_t seed[2] = {sequence, position};
    sha256_digest(seed, sizeof seed, key.bytes);
    return key;
}

/* Bytes that only this block has. */
static inline void fill(void *block, uint32_t sequence, uint32_t position) {
    uint8_t *bytes = block;
    for (size_t i = 0; i < block_bytes(); i++)
        bytes[i] = (uint8_t)(i * 31 + i / 251 + sequence * 57 + position * 101 + (i >> 13) * 7);
}

static inline char *take_blocks(uint32_t count) {
    char *memory = aligned_alloc(STORE_PAGE_BYTES, count * block_bytes());
    assert_non_null(memory);
    memset(memory, 0xEE, count * block_bytes());
    return memory;
}

/* Are the rows of every slice those that were kept? */
static inline bool same_rows(const char *block, uint32_t sequence, uint32_t position) {
    static char *expected;
    if (!expected) expected = take_blocks(1);
    fill(expected, sequence, position);
    size_t slice = kv_format_slice_bytes(&format);
    for (uint32_t i = 0; i < format.slice_count; i++) {
        size_t at = STORE_PAGE_BYTES + i * slice;
        if (memcmp(block + at, expected + at, kv_format_filled_bytes(&format, KV_BLOCK_TOKENS)) !=
            0)
            return false;
    }
    return true;
}

/* ---- stores ---- */

static inline struct kv_store_options options_of(enum kv_io_kind io, uint64_t blocks) {
    return (struct kv_store_options){
        .directory = directory,
        .format = format,
        .disk_bytes = blocks * block_bytes(),
        .write_queue_bytes = 512 * block_bytes(),
        .io = io,
        .scan_ms = 20,
    };
}

static inline struct kv_store *open_with(const struct kv_store_options *options) {
    struct kv_store *store;
    struct error error = {""};
    enum status status = kv_store_open(options, &store, &error);
    if (status) print_message("%s\n", error.text);
    assert_int_equal(status, STATUS_OK);
    return store;
}

static inline void close_store(struct kv_store *store) {
    kv_store_stop(store, LONG_NS);
    kv_store_close(store);
}

static inline void count_copied(void *context, uint64_t tag) {
    __atomic_add_fetch((uint64_t *)context, 1, __ATOMIC_SEQ_CST);
}

/* Keeps blocks first..end-1 of a sequence and waits until they are written; returns how many were
 * taken. */
static inline uint32_t keep(struct kv_store *store, uint32_t sequence, uint32_t first,
                            uint32_t end) {
    char *memory = take_blocks(end - first);
    uint64_t copied = 0;
    uint32_t taken = 0;
    for (uint32_t i = first; i < end; i++) {
        char *block = memory + (i - first) * block_bytes();
        fill(block, sequence, i);
        struct kv_put_request ask = {.key = key_of(sequence, i),
                                     .parent = key_of(sequence, i - 1),
                                     .position = i,
                                     .block = block,
                                     .copied = count_copied,
                                     .context = &copied};
        taken += kv_store_put(store, &ask) == KV_PUT_QUEUED;
    }
    kv_store_flush(store);
    assert_int_equal(__atomic_load_n(&copied, __ATOMIC_SEQ_CST), taken);
    free(memory);
    return taken;
}

static inline uint32_t found(struct kv_store *store, uint32_t sequence, uint32_t count) {
    struct block_key keys[BLOCKS * 4];
    assert_true(count <= ARRAY_COUNT(keys));
    for (uint32_t i = 0; i < count; i++)
        keys[i] = key_of(sequence, i);
    return kv_store_find(store, keys, count).blocks;
}

struct loaded {
    uint32_t blocks, host;
    bool right; /* all of them as they were kept */
};

static inline struct loaded load(struct kv_store *store, uint32_t sequence, uint32_t count) {
    struct block_key keys[BLOCKS * 4];
    void *blocks[BLOCKS * 4];
    char *memory = take_blocks(count);
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = key_of(sequence, i);
        blocks[i] = memory + i * block_bytes();
    }
    struct kv_load_request ask = {.keys = keys, .blocks = blocks, .count = count};
    struct kv_load *under_way = kv_store_load(store, &ask);
    assert_non_null(under_way);
    struct kv_load_state state = kv_store_load_wait(under_way, UINT32_MAX, INT64_MAX);
    kv_store_load_end(under_way);
    struct loaded loaded = {state.blocks, state.host, true};
    for (uint32_t i = 0; i < state.blocks; i++) {
        const struct kv_block_header *header = blocks[i];
        loaded.right = loaded.right && same_rows(blocks[i], sequence, i) &&
                       header->token_count == KV_BLOCK_TOKENS && header->checksum_valid == 0;
    }
    free(memory);
    return loaded;
}

static inline void assert_loads(struct kv_store *store, uint32_t sequence, uint32_t asked,
                                uint32_t expected) {
    struct loaded loaded = load(store, sequence, asked);
    assert_true(loaded.right);
    assert_int_equal(loaded.blocks, expected);
}

/* ---- misfortunes ---- */

struct faults {
    int write_error, read_error;
    int64_t write_fails; /* this one alone; 0: all as write_error says */
    int64_t writes;
    bool shorten;
    int64_t dies_after; /* transfers; 0: never */
    int64_t transfers;
    int lines;
};

static inline int misfortune(void *context, const struct kv_io_op *op, size_t *bytes) {
    struct faults *faults = context;
    int64_t transfers = __atomic_add_fetch(&faults->transfers, 1, __ATOMIC_SEQ_CST);
    if (faults->dies_after && transfers > faults->dies_after) kill(getpid(), SIGKILL);
    if (faults->shorten && *bytes > 4096 && transfers % 3) *bytes = 4096;
    if (op->write && faults->write_fails &&
        __atomic_add_fetch(&faults->writes, 1, __ATOMIC_SEQ_CST) != faults->write_fails)
        return 0;
    return __atomic_load_n(op->write ? &faults->write_error : &faults->read_error,
                           __ATOMIC_SEQ_CST);
}

static inline void count_line(void *context, const char *line) {
    struct faults *faults = context;
    faults->lines++;
    assert_non_null(strstr(line, "directory="));
}

static inline struct kv_store_options with_faults(enum kv_io_kind io, struct kv_io_faults *hook,
                                                  struct faults *faults) {
    struct kv_store_options options = options_of(io, 1024);
    *hook = (struct kv_io_faults){misfortune, faults};
    options.faults = hook;
    options.log = count_line;
    options.log_context = faults;
    return options;
}
