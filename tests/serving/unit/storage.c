/* SPDX-License-Identifier: Apache-2.0 */
#include "storage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"

struct storage *storage_open(uint64_t seed) {
    struct storage *storage = calloc(1, sizeof *storage);
    assert_non_null(storage);
    storage->seed = seed;
    return storage;
}

double storage_draw(struct storage *storage) {
    return random_uniform(storage->seed, 3, (uint32_t)storage->draws++);
}

static struct stored *stored_of(struct storage *storage, const struct block_key *key) {
    for (uint32_t i = 0; i < storage->count; i++)
        if (memcmp(&storage->blocks[i].key, key, sizeof *key) == 0) return &storage->blocks[i];
    return NULL;
}

static void answer_find(struct storage *storage, struct world *world,
                        const struct record_kv_find *find) {
    const struct block_key *keys = kv_find_keys(find);
    uint32_t blocks = 0;
    while (blocks < find->key_count && stored_of(storage, &keys[blocks]))
        blocks++;
    world->known[find->request.low].found = blocks * KV_BLOCK_TOKENS;
    struct record_kv_found *found = world_make(RECORD_KV_FOUND, NULL);
    found->request = find->request;
    found->blocks = blocks;
    found->host_blocks = blocks / 2;
    world_send(world, found);
    storage->finds++;
    storage->fresh_finds += find->fresh;
}

static void report_loaded(struct world *world, struct request_id request) {
    struct record_kv_loaded *loaded = world_make(RECORD_KV_LOADED, NULL);
    loaded->request = request;
    loaded->end = world->known[request.low].load_end;
    world_send(world, loaded);
}

/* The place of the request's load among what is not done; PENDING_MAX: there is none. */
static uint32_t place_of_load(const struct storage *storage, const struct world *world,
                              uint32_t number) {
    for (uint32_t i = 0; i < storage->pending_count; i++) {
        const struct record *record = storage->pending[i].record;
        if (record->kind == RECORD_KV_LOAD && storage->pending[i].world == world &&
            record_request(record).low == number)
            return i;
    }
    return PENDING_MAX;
}

static struct record_kv_load *find_load(struct storage *storage, const struct world *world,
                                        uint32_t number) {
    uint32_t place = place_of_load(storage, world, number);
    return place < PENDING_MAX ? (struct record_kv_load *)storage->pending[place].record : NULL;
}

static void answer_load(struct storage *storage, struct world *world,
                        const struct record_kv_load *load) {
    const struct block_key *keys = kv_load_keys(load);
    const struct page_id *pages = kv_load_pages(load);
    uint32_t blocks = 0;
    for (; blocks < load->block_count && storage_draw(storage) >= storage->lose_odds; blocks++)
        memcpy(world->kv[pages[blocks].index], stored_of(storage, &keys[blocks])->rows,
               sizeof world->kv[0]);
    world_note_rows(world, (uint32_t)load->request.low,
                    (load->first_block + blocks) * KV_BLOCK_TOKENS);
    struct known *known = &world->known[load->request.low];
    known->load_asked = load->block_count;
    known->load_end = (struct load_end){
        .blocks = blocks,
        .host_blocks = blocks / 3,
        .ns = storage->block_ns ? storage->block_ns * blocks : 10 + blocks,
    };
    known->load_over = load->in_step;
    storage->loads++;
    storage->loaded += blocks;
    if (!load->in_step) report_loaded(world, load->request);
}

/* Its load is over, and waits for the engine; or is still to come, and is told when it has. */
static void answer_park(struct storage *storage, struct world *world,
                        const struct record_kv_park *park) {
    struct record_kv_load *load = find_load(storage, world, (uint32_t)park->request.low);
    if (load) {
        assert_true(load->in_step && load->slot == park->slot);
        load->in_step = 0;
        return;
    }
    assert_true(world->known[park->request.low].load_over);
    world->known[park->request.low].load_over = false;
    report_loaded(world, park->request);
}

static void answer_keep(struct storage *storage, const struct pending *pending) {
    struct world *world = pending->world;
    const struct record_kv_put *keep = (const void *)pending->record;
    const struct block_key *keys = kv_keep_keys(keep);
    const struct page_id *pages = kv_keep_pages(keep);
    bool full = storage_draw(storage) < storage->lose_odds;
    if (keep->first_block == 0)
        for (uint32_t i = 0; i < sizeof keys[0]; i++)
            assert_int_equal(keys[0].bytes[i], 0);
    for (uint32_t i = 0; i < keep->block_count; i++) {
        assert_memory_equal(world->kv[pages[i].index], pending->kept[i], sizeof world->kv[0]);
        if (full || stored_of(storage, &keys[1 + i])) continue;
        struct stored *stored = &storage->blocks[storage->count++];
        assert_true(storage->count < STORED_MAX);
        stored->key = keys[1 + i];
        memcpy(stored->rows, world->kv[pages[i].index], sizeof stored->rows);
        storage->keeps++;
    }
    struct record_kv_stored *kept = world_make(RECORD_KV_STORED, NULL);
    kept->last_page = keep->last_page;
    kept->dropped = full ? keep->block_count : 0;
    kept->writable = !full;
    storage->dropped += kept->dropped;
    world_send(world, kept);
}

/* Each is noted; what a load will write to is spoilt at once. */
void storage_take(struct storage *storage, struct world *world, const struct record *record) {
    assert_true(storage->pending_count < PENDING_MAX);
    struct pending *pending = &storage->pending[storage->pending_count++];
    pending->world = world;
    pending->record = malloc(record->bytes);
    memcpy(pending->record, record, record->bytes);
    if (record->kind == RECORD_KV_LOAD) {
        const struct record_kv_load *load = (const void *)record;
        const struct page_id *pages = kv_load_pages(load);
        for (uint32_t i = 0; i < load->block_count; i++)
            memset(world->kv[pages[i].index], 0xEE, sizeof world->kv[0]);
    }
    if (record->kind != RECORD_KV_PUT) return;
    const struct record_kv_put *keep = (const void *)record;
    const struct page_id *pages = kv_keep_pages(keep);
    for (uint32_t i = 0; i < keep->block_count; i++)
        memcpy(pending->kept[i], world->kv[pages[i].index], sizeof world->kv[0]);
}

void storage_await(struct world *world, uint32_t number) {
    storage_await_of(world->context, world, number);
}

void storage_await_of(struct storage *storage, struct world *world, uint32_t number) {
    if (storage_draw(storage) < storage->idle_odds) return;
    uint32_t place = place_of_load(storage, world, number);
    if (place < PENDING_MAX) storage_do(storage, place);
}

void storage_do(struct storage *storage, uint32_t slot) {
    struct pending *pending = &storage->pending[slot];
    const struct record *record = pending->record;
    switch (record->kind) {
    case RECORD_KV_FIND:
        answer_find(storage, pending->world, (const void *)record);
        break;
    case RECORD_KV_LOAD:
        answer_load(storage, pending->world, (const void *)record);
        break;
    case RECORD_KV_PARK:
        answer_park(storage, pending->world, (const void *)record);
        break;
    case RECORD_KV_PUT:
        answer_keep(storage, pending);
        break;
    default:
        fail();
    }
    free(pending->record);
    memmove(pending, pending + 1, (--storage->pending_count - slot) * sizeof *pending);
}
