/* SPDX-License-Identifier: Apache-2.0
 * Protects loads that an engine waits for layer by layer in the middle of a step: what it is told
 * to have come stands in the pages; a block that is damaged or gone is told as such and ends
 * nobody's waiting; when a load is over its KV_LOADED is there to be taken, once; and a load of
 * a slot is not mistaken for another, though it may be awaited before it is given.
 */
#include "host/storage/kv_host_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/sha256.h"
#include "compute/model/kv_pages.h"
#include "contract/machine.h"
#include "contract/record_kv.h"
#include "serving/cache/block_key.h"
#include "test_case.h"

/* Slices of 64 KiB: a load comes in parts. */
enum { PAGES = 24, BLOCKS = 8, SLICES = 12, WIDTH = 512, SLOT = 3 };

static char directory[64];
static struct kv_pages pages;
static struct kv_host_cache *host_cache;
static uint32_t loaded_count, loaded_blocks, kept_count;

static int set_up(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%.40s/kv_tier_XXXXXX", base ? base : "/tmp");
    const struct kv_format format = KV_FORMAT_MLA(KV_ELEMENT_BF16, WIDTH, SLICES, 1);
    check(kv_pages_open(&pages, &format, PAGES * kv_format_block_bytes(&format), NULL) ==
          STATUS_OK);
    return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    kv_pages_close(&pages);
    snprintf(command, sizeof command, "rm -r '%s'", directory);
    return system(command);
}

static void open_host_cache(void) {
    const struct kv_store_options options = {.directory = directory, .disk_bytes = 1 << 28};
    struct error error = {.text = ""};
    if (kv_host_cache_open(&options, &pages, &host_cache, &error)) fail_msg("%s", error.text);
    loaded_count = kept_count = 0;
}

static struct block_key key_of(uint32_t block) {
    struct block_key key;
    sha256_digest(&block, sizeof block, key.bytes);
    return key;
}

static uint8_t byte_of(uint32_t block, uint32_t slice, size_t at) {
    return (uint8_t)(block * 37 + slice * 101 + at * 7 + at / 253);
}

static bool slice_is(uint32_t page, uint32_t block, uint32_t slice) {
    const uint8_t *rows = kv_pages_slice(&pages, page, slice);
    for (size_t i = 0; i < pages.slice_bytes; i += 61)
        if (rows[i] != byte_of(block, slice, i)) return false;
    return true;
}

static _Alignas(8) char memory[8192];
static struct outbox records = {.memory = memory, .capacity = sizeof memory};

static void *make(enum record_kind kind, const void *fixed) {
    machine_outbox_clear(&records);
    return machine_outbox_put(&records, kind, fixed);
}

static void take(void *context, const struct record *record) {
    (void)context;
    assert_true(record_valid(record, record->bytes));
    kept_count += record->kind == RECORD_KV_STORED;
    if (record->kind != RECORD_KV_LOADED) return;
    loaded_count++;
    const struct record_kv_loaded *loaded = (const void *)record;
    loaded_blocks = loaded->end.blocks;
}

/* Blocks 0..BLOCKS-1 from the first pages, until they are on disk. */
static void keep_blocks(void) {
    struct record_kv_put *keep =
        make(RECORD_KV_PUT, &(struct record_kv_put){.block_count = BLOCKS});
    struct block_key *keys = kv_keep_keys(keep);
    struct page_id *to = kv_keep_pages(keep);
    for (uint32_t block = 0; block < BLOCKS; block++) {
        keys[1 + block] = key_of(block);
        to[block].index = block;
        kv_pages_note(&pages, block, KV_BLOCK_TOKENS);
        for (uint32_t slice = 0; slice < SLICES; slice++)
            for (size_t i = 0; i < pages.slice_bytes; i++)
                ((uint8_t *)kv_pages_slice(&pages, block, slice))[i] = byte_of(block, slice, i);
    }
    kv_host_cache_give(host_cache, &keep->record);
    kv_store_flush(kv_host_cache_store(host_cache));
    kv_host_cache_take(host_cache, take, NULL);
    assert_int_equal(kept_count, 1);
}

/* Into the pages behind; a row of the slot waits for it. */
static void load_blocks(uint32_t first, uint32_t count) {
    struct record_kv_load *load = make(
        RECORD_KV_LOAD, &(struct record_kv_load){.block_count = count, .slot = SLOT, .in_step = 1});
    struct block_key *keys = kv_load_keys(load);
    struct page_id *to = kv_load_pages(load);
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = key_of(first + i);
        to[i].index = BLOCKS + i;
        memset(pages.memory + (BLOCKS + i) * pages.page_bytes, 0xEE, pages.page_bytes);
    }
    kv_host_cache_give(host_cache, &load->record);
}

struct engine {
    uint32_t first, count; /* blocks */
    bool whole, over;
    struct load_end end; /* of a load that is over */
    uint32_t wrong;      /* slices that were told and are not there */
};

/* As in a step: each layer, then the end. */
static void *wait_for_layers(void *context) {
    struct engine *engine = context;
    bool come = true;
    for (uint32_t layer = 0; layer < SLICES && come; layer++) {
        come = kv_host_cache_await(host_cache, SLOT, layer + 1);
        for (uint32_t i = 0; i < engine->count && come; i++)
            engine->wrong += !slice_is(BLOCKS + i, engine->first + i, layer);
    }
    engine->whole = kv_host_cache_await(host_cache, SLOT, UINT32_MAX);
    engine->over = kv_host_cache_take_end(host_cache, SLOT, &engine->end);
    return NULL;
}

static pthread_t begin_waiting(struct engine *engine) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_layers, engine), 0);
    return thread;
}

static struct engine run_step(uint32_t first, uint32_t count, bool taken_meanwhile) {
    struct engine engine = {.first = first, .count = count};
    load_blocks(first, count);
    pthread_t thread = begin_waiting(&engine);
    for (int i = 0; i < 200 && taken_meanwhile; i++) {
        kv_host_cache_take(host_cache, take,
                           NULL); /* what is over is freed while it may be looked at */
        usleep(50);
    }
    pthread_join(thread, NULL);
    kv_host_cache_take(host_cache, take, NULL);
    assert_true(engine.over);
    assert_int_equal(loaded_count, 0); /* the unit hears it from the engine */
    assert_int_equal(engine.wrong, 0);
    return engine;
}

TEST_AROUND(layers_are_there_when_they_are_reported, set_up, tear_down) {
    open_host_cache();
    assert_true(kv_store_load_parts(kv_host_cache_store(host_cache)) > 1);
    keep_blocks();
    for (uint32_t i = 0; i < 30; i++) {
        struct engine engine = run_step(i % 4, 1 + i % (BLOCKS - 3), i % 2);
        assert_true(engine.whole);
        assert_int_equal(engine.end.blocks, engine.count);
        assert_true(engine.end.ns > 0);
    }
    kv_host_cache_close(host_cache);
}

static void spoil(const char *path) {
    int file = open(path, O_RDWR);
    struct stat found;
    char byte;
    assert_true(file >= 0 && fstat(file, &found) == 0);
    off_t at = (off_t)(5 * pages.page_bytes + pages.page_bytes / 2); /* in the sixth block */
    assert_true(found.st_size > at);
    assert_int_equal(pread(file, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(file, &byte, 1, at), 1);
    close(file);
}

/* Calls for the one file that holds blocks. */
static void spoil_data(const char *folder) {
    char path[512];
    DIR *list = opendir(folder);
    assert_non_null(list);
    for (struct dirent *entry; (entry = readdir(list));) {
        struct stat found;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.' || stat(path, &found)) continue;
        if (S_ISDIR(found.st_mode)) spoil_data(path);
        if (S_ISREG(found.st_mode) && (size_t)found.st_size > 6 * pages.page_bytes) spoil(path);
    }
    closedir(list);
}

/* One damaged block, then one that is unknown: those before it are whole, and nothing hangs. */
TEST_AROUND(what_does_not_come_is_reported, set_up, tear_down) {
    open_host_cache();
    keep_blocks();
    spoil_data(directory);
    for (uint32_t again = 0; again < 2; again++) {
        struct engine engine = run_step(0, BLOCKS, again);
        assert_false(engine.whole);
        assert_int_equal(engine.end.blocks, 5);
        for (uint32_t slice = 0; slice < SLICES; slice++)
            for (uint32_t i = 0; i < engine.end.blocks; i++)
                assert_true(slice_is(BLOCKS + i, i, slice));
    }
    struct engine engine = run_step(BLOCKS, 2, false);
    assert_false(engine.whole);
    assert_int_equal(engine.end.blocks, 0);
    engine = run_step(1, 3, false);
    assert_true(engine.whole);
    kv_host_cache_close(host_cache);
}

/* Another rank's engine may have its plan before its storage is told of the load. */
TEST_AROUND(a_load_may_be_given_later_than_the_step, set_up, tear_down) {
    open_host_cache();
    keep_blocks();
    for (uint32_t i = 0; i < 10; i++) {
        struct engine engine = {.first = i % 4, .count = 3};
        pthread_t thread = begin_waiting(&engine);
        usleep(i * 500);
        load_blocks(engine.first, engine.count);
        pthread_join(thread, NULL);
        kv_host_cache_take(host_cache, take, NULL);
        assert_true(engine.whole && engine.over);
        assert_int_equal(engine.wrong, 0);
    }
    kv_host_cache_close(host_cache);
}

/* No load is taken for an earlier one of its slot, and none is waited for for ever. */
TEST_AROUND(each_load_is_its_own, set_up, tear_down) {
    struct load_end end;
    open_host_cache();
    keep_blocks();
    assert_true(run_step(0, 2, false).whole);
    assert_false(kv_host_cache_take_end(host_cache, SLOT, &end)); /* once */
    int64_t began_ns = clock_now_ns();
    assert_false(kv_host_cache_await(host_cache, SLOT, 1)); /* the next one is never given */
    assert_true(clock_now_ns() - began_ns > 1000000000);
    assert_true(run_step(2, 2, false).whole);
    kv_host_cache_close(host_cache);
}

static void park(void) {
    kv_host_cache_give(host_cache, make(RECORD_KV_PARK, &(struct record_kv_park){.slot = SLOT}));
}

/* A load that no row waits for any more is told by KV_LOADED, once: whether it is parked before its
 * end, behind it, or when the engine of a step that failed has taken it. */
TEST_AROUND(a_parked_load_is_reported, set_up, tear_down) {
    open_host_cache();
    keep_blocks();
    for (uint32_t i = 0; i < 12; i++) {
        struct load_end end;
        loaded_count = 0;
        load_blocks(i % 4, 3);
        if (i % 3) assert_true(kv_host_cache_await(host_cache, SLOT, UINT32_MAX));
        if (i % 3 == 2) assert_true(kv_host_cache_take_end(host_cache, SLOT, &end));
        park();
        kv_store_flush(kv_host_cache_store(host_cache));
        kv_host_cache_take(host_cache, take, NULL);
        assert_int_equal(loaded_count, 1);
        assert_int_equal(loaded_blocks, 3);
        assert_false(kv_host_cache_take_end(host_cache, SLOT, &end));
    }
    kv_host_cache_close(host_cache);
}
