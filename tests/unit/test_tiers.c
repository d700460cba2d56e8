/* SPDX-License-Identifier: Apache-2.0
 * A unit with an invented storage below its pages, which answers when it likes, loses blocks, and
 * loads less than it said: the answers are what they always are (the world checks every row that is
 * read), nobody touches a page that is being loaded or copied, every page is back at the end, and
 * what one unit has kept another one loads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/random.h"
#include "world.h"

enum { BLOCKS_MAX = 4000, PENDING_MAX = 64 };

struct stored {
    struct kv_key key;
    struct kv_row rows[KV_BLOCK_TOKENS];
};

struct storage {
    struct stored blocks[BLOCKS_MAX];
    uint32_t count;
    struct record *pending[PENDING_MAX]; /* loads and keeps that have not been done */
    struct kv_row kept[PENDING_MAX][24][KV_BLOCK_TOKENS]; /* what a keep's pages held when asked */
    uint32_t pending_count;
    uint64_t seed, draws;
    double late_odds, lose_odds;
    uint32_t finds, loads, loaded, keeps, dropped;
};

static double draw(struct storage *storage) {
    return random_uniform(storage->seed, 3, (uint32_t)storage->draws++);
}

static struct stored *stored_of(struct storage *storage, const struct kv_key *key) {
    for (uint32_t i = 0; i < storage->count; i++)
        if (memcmp(&storage->blocks[i].key, key, sizeof *key) == 0) return &storage->blocks[i];
    return NULL;
}

static void answer_find(struct world *world, const struct record_kv_find *find) {
    struct storage *storage = world->context;
    const struct kv_key *keys = record_tail_at(find, sizeof *find);
    uint32_t blocks = 0;
    while (blocks < find->key_count && stored_of(storage, &keys[blocks]))
        blocks++;
    world->known[find->request.low].found = blocks * KV_BLOCK_TOKENS;
    struct record_kv_found *found = world_make(RECORD_KV_FOUND, sizeof *found);
    found->request = find->request;
    found->blocks = blocks;
    found->host_blocks = blocks / 2;
    world_send(world, found);
    storage->finds++;
}

static void answer_load(struct world *world, const struct record_kv_load *load) {
    struct storage *storage = world->context;
    const struct kv_key *keys = record_tail_at(load, sizeof *load);
    const struct page_id *pages =
        (const void *)((const char *)load + kv_load_pages_at(load->block_count));
    uint32_t blocks = 0;
    for (; blocks < load->block_count && draw(storage) >= storage->lose_odds; blocks++)
        memcpy(world->kv[pages[blocks].index], stored_of(storage, &keys[blocks])->rows,
               sizeof world->kv[0]);
    struct record_kv_loaded *loaded = world_make(RECORD_KV_LOADED, sizeof *loaded);
    loaded->request = load->request;
    loaded->blocks = blocks;
    loaded->host_blocks = blocks / 3;
    loaded->ns = 10 + blocks;
    world_send(world, loaded);
    storage->loads++;
    storage->loaded += blocks;
}

static void answer_keep(struct world *world, const struct record_kv_keep *keep, uint32_t slot) {
    struct storage *storage = world->context;
    const struct kv_key *keys = record_tail_at(keep, sizeof *keep);
    const struct page_id *pages =
        (const void *)((const char *)keep + kv_keep_pages_at(keep->block_count));
    bool full = draw(storage) < storage->lose_odds;
    if (keep->first_block == 0)
        for (uint32_t i = 0; i < sizeof keys[0]; i++)
            assert_int_equal(keys[0].bytes[i], 0);
    for (uint32_t i = 0; i < keep->block_count; i++) {
        assert_memory_equal(world->kv[pages[i].index], storage->kept[slot][i], sizeof world->kv[0]);
        if (full || stored_of(storage, &keys[1 + i])) continue;
        struct stored *stored = &storage->blocks[storage->count++];
        assert_true(storage->count < BLOCKS_MAX);
        stored->key = keys[1 + i];
        memcpy(stored->rows, world->kv[pages[i].index], sizeof stored->rows);
        storage->keeps++;
    }
    struct record_kv_kept *kept = world_make(RECORD_KV_KEPT, sizeof *kept);
    kept->last_page = keep->last_page;
    kept->dropped = full ? keep->block_count : 0;
    kept->writable = !full;
    storage->dropped += kept->dropped;
    world_send(world, kept);
}

/* Each is noted; what a load will write to is spoilt at once. */
static void take_other(struct world *world, const struct record *record) {
    struct storage *storage = world->context;
    uint32_t slot = storage->pending_count++;
    assert_true(slot < PENDING_MAX);
    storage->pending[slot] = malloc(record->bytes);
    memcpy(storage->pending[slot], record, record->bytes);
    if (record->kind == RECORD_KV_LOAD) {
        const struct record_kv_load *load = (const void *)record;
        const struct page_id *pages =
            (const void *)((const char *)load + kv_load_pages_at(load->block_count));
        for (uint32_t i = 0; i < load->block_count; i++)
            memset(world->kv[pages[i].index], 0xEE, sizeof world->kv[0]);
    }
    if (record->kind != RECORD_KV_KEEP) return;
    const struct record_kv_keep *keep = (const void *)record;
    const struct page_id *pages =
        (const void *)((const char *)keep + kv_keep_pages_at(keep->block_count));
    for (uint32_t i = 0; i < keep->block_count; i++)
        memcpy(storage->kept[slot][i], world->kv[pages[i].index], sizeof world->kv[0]);
}

static void do_pending(struct world *world, uint32_t slot) {
    struct storage *storage = world->context;
    struct record *record = storage->pending[slot];
    switch (record->kind) {
    case RECORD_KV_FIND:
        answer_find(world, (const void *)record);
        break;
    case RECORD_KV_LOAD:
        answer_load(world, (const void *)record);
        break;
    case RECORD_KV_KEEP:
        answer_keep(world, (const void *)record, slot);
        break;
    default:
        fail();
    }
    free(record);
    for (uint32_t i = slot + 1; i < storage->pending_count; i++) {
        storage->pending[i - 1] = storage->pending[i];
        memcpy(storage->kept[i - 1], storage->kept[i], sizeof storage->kept[0]);
    }
    storage->pending_count--;
}

/* Until nothing is left to do, in any order. */
static void run(struct world *world) {
    struct storage *storage = world->context;
    for (int turn = 0; turn < 100000; turn++) {
        world_drain(world);
        if (storage->pending_count && draw(storage) >= storage->late_odds) {
            do_pending(world, (uint32_t)(draw(storage) * storage->pending_count));
            continue;
        }
        if (world->plan)
            world_complete(world, false);
        else if (!storage->pending_count &&
                 world->machine.next_wake_ns(world->machine.self) == MACHINE_NEVER)
            return;
        world_drain(world);
        if (storage->pending_count < PENDING_MAX / 2) world_step(world);
    }
    fail();
}

static struct world *open_above(struct storage *storage, enum kv_choice choice) {
    struct unit_options options = world_options();
    options.prefix_cache = true;
    options.kv_storage = true;
    options.kv_choice = choice;
    options.page_bytes = 1000;
    struct world *world = world_open(&options);
    world->other = take_other;
    world->context = storage;
    return world;
}

static struct storage *new_storage(uint64_t seed) {
    struct storage *storage = calloc(1, sizeof *storage);
    assert_non_null(storage);
    storage->seed = seed;
    return storage;
}

/* Four long prompts, twice; returns the hits. */
static uint32_t ask_families(struct world *world) {
    for (uint32_t i = 0; i < 4; i++) {
        world_submit_family(world, 3 + i, (3 + i) * 100, 10);
        run(world);
    }
    world_assert_empty(world);
    return world->hits;
}

static void what_one_keeps_another_loads(void **state) {
    (void)state;
    struct storage *storage = new_storage(1);
    struct world *first = open_above(storage, KV_CHOICE_LOAD);
    assert_int_equal(ask_families(first), 0);
    assert_true(storage->keeps > 20 && storage->loads == 0);
    assert_int_equal(first->load.kept_blocks_total, storage->keeps);
    world_close(first);
    struct world *second = open_above(storage, KV_CHOICE_LOAD);
    uint32_t hits = ask_families(second), whole = 0;
    for (uint32_t i = 0; i < 4; i++)
        whole += ((3 + i) * 100 - 1) / KV_BLOCK_TOKENS * KV_BLOCK_TOKENS;
    assert_int_equal(hits, whole); /* every whole block before the last token */
    assert_int_equal(storage->loads, 4);
    assert_int_equal(second->load.loaded_disk_tokens_total + second->load.loaded_host_tokens_total,
                     hits);
    assert_int_equal(second->load.kv_storage, KV_STORAGE_ON);
    world_close(second);
    struct world *third = open_above(storage, KV_CHOICE_COMPUTE); /* hits, though all is computed */
    assert_int_equal(ask_families(third), whole);
    assert_int_equal(storage->loads, 4);
    assert_int_equal(third->load.loaded_disk_tokens_total + third->load.loaded_host_tokens_total,
                     0);
    world_close(third);
    free(storage);
}

static void another_tenant_finds_nothing(void **state) {
    (void)state;
    struct storage *storage = new_storage(2);
    struct world *world = open_above(storage, KV_CHOICE_LOAD);
    uint32_t tokens[300];
    for (uint32_t i = 0; i < 300; i++)
        tokens[i] = i % VOCAB;
    for (uint32_t salt = 0; salt < 4; salt++) {
        struct record_submit head = {.prompt_count = 300, .new_tokens_max = 4};
        head.tenant.bytes[salt ? 31 : 0] = (uint8_t)salt; /* each of its bytes counts */
        world_submit_head(world, &head, tokens);
        run(world);
    }
    assert_int_equal(world->hits, 0);
    assert_int_equal(storage->loads, 0);
    world_assert_empty(world);
    world_close(world);
    free(storage);
}

/* Where the storage is late, a request is not kept waiting for what it might have. */
static void nobody_waits_for_an_answer(void **state) {
    (void)state;
    struct storage *storage = new_storage(3);
    struct world *world = open_above(storage, KV_CHOICE_LOAD);
    uint32_t number = world_submit(world, 200, 5);
    for (int turn = 0; turn < 100 && !world->known[number].endings; turn++) {
        world_drain(world);
        if (world->plan) world_complete(world, false);
        world_drain(world);
        world_step(world);
    }
    assert_int_equal(world->known[number].endings, 1);
    assert_true(storage->pending_count > 0);
    run(world);
    world_assert_empty(world);
    world_close(world);
    free(storage);
}

/* Cancelled while its pages are written to: they are given back when that is over. */
static void a_load_outlives_its_request(void **state) {
    (void)state;
    struct storage *storage = new_storage(4);
    struct world *world = open_above(storage, KV_CHOICE_LOAD);
    world_submit_family(world, 5, 500, 4);
    run(world);
    world_close(world);
    world = open_above(storage, KV_CHOICE_LOAD);
    uint32_t number = world_submit_family(world, 5, 500, 4);
    world_drain(world);
    assert_int_equal(storage->pending_count, 1);
    do_pending(world, 0); /* found */
    world_step(world);
    world_drain(world);
    assert_int_equal(storage->pending[0]->kind, RECORD_KV_LOAD);
    world_cancel(world, number);
    world_drain(world);
    assert_int_equal(world->known[number].endings, 0);
    assert_true(world->load.pages_held > 0);
    do_pending(world, 0);
    world_drain(world);
    assert_int_equal(world->known[number].endings, 1);
    run(world);
    world_assert_empty(world);
    world_close(world);
    free(storage);
}

/* Many requests, a slow and forgetful storage, few pages. */
static void whatever_the_storage_does_the_answers_stay(void **state) {
    (void)state;
    uint32_t loaded = 0, dropped = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct storage *storage = new_storage(seed);
        storage->late_odds = 0.7;
        storage->lose_odds = seed % 2 ? 0.1 : 0;
        for (int life = 0; life < 2; life++) {
            struct world *world =
                open_above(storage, seed % 3 ? KV_CHOICE_LOAD : KV_CHOICE_MEASURED);
            for (uint32_t i = 0; i < 12; i++) {
                for (uint32_t k = 0; k < 3; k++)
                    world_submit_family(world, 1 + (uint32_t)(draw(storage) * 8),
                                        100 + (uint32_t)(draw(storage) * 700), 20);
                if (draw(storage) < 0.5)
                    world_cancel(world, (uint32_t)(draw(storage) * world->submitted));
                run(world);
            }
            world_assert_empty(world);
            world_close(world);
        }
        loaded += storage->loaded;
        dropped += storage->dropped;
        free(storage);
    }
    assert_true(loaded > 300 && dropped > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_one_keeps_another_loads),
        cmocka_unit_test(another_tenant_finds_nothing),
        cmocka_unit_test(nobody_waits_for_an_answer),
        cmocka_unit_test(a_load_outlives_its_request),
        cmocka_unit_test(whatever_the_storage_does_the_answers_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
