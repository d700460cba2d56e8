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

#include "storage.h"

static void take_other(struct world *world, const struct record *record) {
    storage_take(world->context, world, record);
}

/* Until nothing is left to do, in any order. */
static void run(struct world *world) {
    struct storage *storage = world->context;
    for (int turn = 0; turn < 100000; turn++) {
        world_drain(world);
        if (storage->pending_count && storage_draw(storage) >= storage->late_odds) {
            storage_do(storage, (uint32_t)(storage_draw(storage) * storage->pending_count));
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
    struct storage *storage = storage_open(1);
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
    struct storage *storage = storage_open(2);
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
    struct storage *storage = storage_open(3);
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
    struct storage *storage = storage_open(4);
    struct world *world = open_above(storage, KV_CHOICE_LOAD);
    world_submit_family(world, 5, 500, 4);
    run(world);
    world_close(world);
    world = open_above(storage, KV_CHOICE_LOAD);
    uint32_t number = world_submit_family(world, 5, 500, 4);
    world_drain(world);
    assert_int_equal(storage->pending_count, 1);
    storage_do(storage, 0); /* found */
    world_step(world);
    world_drain(world);
    assert_int_equal(storage->pending[0].record->kind, RECORD_KV_LOAD);
    world_cancel(world, number);
    world_drain(world);
    assert_int_equal(world->known[number].endings, 0);
    assert_true(world->load.pages_held > 0);
    storage_do(storage, 0);
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
        struct storage *storage = storage_open(seed);
        storage->late_odds = 0.7;
        storage->lose_odds = seed % 2 ? 0.1 : 0;
        for (int life = 0; life < 2; life++) {
            struct world *world =
                open_above(storage, seed % 3 ? KV_CHOICE_LOAD : KV_CHOICE_MEASURED);
            for (uint32_t i = 0; i < 12; i++) {
                for (uint32_t k = 0; k < 3; k++)
                    world_submit_family(world, 1 + (uint32_t)(storage_draw(storage) * 8),
                                        100 + (uint32_t)(storage_draw(storage) * 700), 20);
                if (storage_draw(storage) < 0.5)
                    world_cancel(world, (uint32_t)(storage_draw(storage) * world->submitted));
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
