/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/pages/fleet_storage.h"

#include "base/check.h"

enum { BLOCKS_MAX = 320, JOBS_MAX = 512, STALE_OF = 60, TORN_OF = 2 };

/* Delay until a unit finds blocks that another unit wrote. */
#define OTHERS_SEE_NS (FLEET_SECOND / 2)

enum block_state { BLOCK_FREE, BLOCK_QUEUED, BLOCK_WRITTEN };

struct fleet_block {
    enum block_state state;
    uint8_t unit;      /* the unit that wrote it or is writing it */
    uint8_t in_memory; /* bit mask of the units that also have it in host memory */
    uint8_t seen;      /* bits of the units that have looked for others' blocks */
    struct block_key key;
    int64_t written_ns;
    uint64_t checksums[FLEET_SLICES];
    struct fleet_page page;
};

/* A request in transit or in work. */
struct fleet_job {
    enum record_kind kind; /* of the request */
    uint8_t unit, rank;
    int64_t asked_ns, due_ns;
    struct request_id request;
    uint32_t count, slice; /* LOAD: next slice to read */
    uint32_t whole, host;  /* LOAD: leading complete blocks so far; those in host memory */
    uint32_t slot;         /* LOAD: slot of the request */
    bool in_step, over;    /* LOAD: the engine takes the end; `over`: it is there */
    bool lost;             /* the process that received it is dead */
    int64_t took_ns;       /* LOAD: its duration */
    bool fresh;            /* FIND: also finds blocks that others have just written */
    uint32_t last_page, dropped;
    bool taken[FLEET_STORAGE_KEYS_MAX]; /* PUT: the blocks that have been copied */
    struct block_key keys[FLEET_STORAGE_KEYS_MAX];
    struct page_id pages[FLEET_STORAGE_KEYS_MAX];
};

bool fleet_storage_open(struct fleet_storage *storage, struct arena *arena, uint64_t seed) {
    *storage = (struct fleet_storage){.dice = {.seed = seed, .stream = 2}};
    storage->blocks = arena_take_zeroed(arena, BLOCKS_MAX * sizeof *storage->blocks);
    storage->jobs = arena_take(arena, JOBS_MAX * sizeof *storage->jobs);
    return storage->blocks && storage->jobs;
}

/* ---- blocks ---- */

/* A written block that the unit can find, or NULL. */
static struct fleet_block *find_block(struct fleet_storage *storage, const struct block_key *key,
                                      uint32_t unit, int64_t now_ns) {
    for (uint32_t i = 0; i < BLOCKS_MAX; i++) {
        struct fleet_block *block = &storage->blocks[i];
        if (block->state == BLOCK_FREE || memcmp(&block->key, key, sizeof *key) != 0) continue;
        bool known = block->unit == unit || block->seen >> unit & 1 ||
                     block->written_ns + OTHERS_SEE_NS <= now_ns;
        return known && block->state == BLOCK_WRITTEN ? block : NULL;
    }
    return NULL;
}

static bool has_block(const struct fleet_storage *storage, const struct block_key *key) {
    for (uint32_t i = 0; i < BLOCKS_MAX; i++)
        if (storage->blocks[i].state != BLOCK_FREE &&
            memcmp(&storage->blocks[i].key, key, sizeof *key) == 0)
            return true;
    return false;
}

static uint32_t count_queued(const struct fleet_storage *storage, uint32_t unit) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < BLOCKS_MAX; i++)
        count += storage->blocks[i].state == BLOCK_QUEUED && storage->blocks[i].unit == unit;
    return count;
}

/* Makes space for one more block, by evicting a written one if necessary. Returns NULL if all
 * blocks are queued for writing. */
static struct fleet_block *fleet_storage_make_room(struct fleet_storage *storage) {
    struct fleet_block *written[BLOCKS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < storage->capacity; i++) {
        if (storage->blocks[i].state == BLOCK_FREE) return &storage->blocks[i];
        if (storage->blocks[i].state == BLOCK_WRITTEN) written[count++] = &storage->blocks[i];
    }
    if (count == 0) return NULL;
    return written[fleet_dice_below(&storage->dice, count)];
}

static bool disk_fails(const struct fleet_storage *storage, int64_t now_ns) {
    return storage->off_ns > now_ns;
}

static void look_for_others(struct fleet_storage *storage, uint32_t unit) {
    for (uint32_t i = 0; i < storage->capacity; i++)
        if (storage->blocks[i].state == BLOCK_WRITTEN)
            storage->blocks[i].seen |= (uint8_t)(1u << unit);
}

/* ---- requests ---- */

static void find(struct fleet_storage *storage, const struct fleet_job *job, int64_t now_ns) {
    struct record_kv_found reported = {.record = record_head(RECORD_KV_FOUND, sizeof reported),
                                       .request = job->request,
                                       .rank = job->rank};
    if (job->fresh) look_for_others(storage, job->unit);
    for (; reported.blocks < job->count; reported.blocks++) {
        const struct fleet_block *block =
            find_block(storage, &job->keys[reported.blocks], job->unit, now_ns);
        if (!block) break;
        bool host = block->in_memory >> job->unit & 1;
        if (host && reported.host_blocks == reported.blocks) reported.host_blocks++;
    }
    storage->say(storage->context, job->unit, &reported.record);
}

static bool fleet_storage_is_whole(const struct fleet_block *block, uint32_t slice) {
    return fleet_engine_checksum(&block->page.slices[slice], KV_BLOCK_TOKENS) ==
           block->checksums[slice];
}

/* The engine with the pages of the process that received the job, or NULL if it is dead. */
static struct fleet_engine *engine_of(struct fleet_storage *storage, const struct fleet_job *job) {
    return job->lost ? NULL : storage->engine_of(storage->context, job->unit, job->rank);
}

/* Reads one slice of all blocks. Returns true if it was the last slice. Blocks after a damaged one
 * are written, too, but do not count. */
static bool load_slice(struct fleet_storage *storage, struct fleet_job *job, int64_t now_ns) {
    struct fleet_engine *engine = engine_of(storage, job);
    if (!engine) job->whole = 0;
    for (uint32_t i = 0; engine && i < job->count; i++) {
        struct fleet_block *block = find_block(storage, &job->keys[i], job->unit, now_ns);
        bool host = block && block->in_memory >> job->unit & 1;
        struct fleet_page *page = &engine->pages[job->pages[i].index];
        if (block && (host || !disk_fails(storage, now_ns))) {
            page->salt = block->page.salt;
            fleet_engine_copy(&page->slices[job->slice], &block->page.slices[job->slice], 0,
                              KV_BLOCK_TOKENS);
            if (fleet_storage_is_whole(block, job->slice)) continue;
            block->state = BLOCK_FREE; /* for all units, and for later reads */
            storage->counts.refused++;
        }
        if (job->whole > i) job->whole = i;
    }
    if (job->host > job->whole) job->host = job->whole;
    if (!engine || ++job->slice == FLEET_SLICES) return true;
    int64_t most_ns = storage->read_ns_max;
    if (storage->faults && fleet_dice_below(&storage->dice, STALE_OF) == 0)
        most_ns = 3 * FLEET_SECOND;
    job->due_ns = now_ns + fleet_dice_time(&storage->dice, FLEET_MS / 100, most_ns);
    return false;
}

static struct load_end end_of(struct fleet_storage *storage, const struct fleet_job *job) {
    storage->counts.loaded += job->whole;
    return (struct load_end){.blocks = job->whole, .host_blocks = job->host, .ns = job->took_ns};
}

static void say_loaded(struct fleet_storage *storage, const struct fleet_job *job) {
    struct record_kv_loaded reported = {.record = record_head(RECORD_KV_LOADED, sizeof reported),
                                        .request = job->request,
                                        .rank = job->rank,
                                        .end = end_of(storage, job)};
    storage->say(storage->context, job->unit, &reported.record);
}

static void drop_job(struct fleet_storage *storage, struct fleet_job *job) {
    *job = storage->jobs[--storage->job_count];
}

/* The load of the slot that has in_step set, or NULL. */
static struct fleet_job *job_of_slot(const struct fleet_storage *storage, uint32_t unit,
                                     uint32_t rank, uint32_t slot) {
    for (uint32_t i = 0; i < storage->job_count; i++) {
        struct fleet_job *job = &storage->jobs[i];
        if (job->kind == RECORD_KV_LOAD && job->in_step && job->unit == unit && job->rank == rank &&
            job->slot == slot)
            return job;
    }
    return NULL;
}

static void fleet_storage_park(struct fleet_storage *storage, uint32_t unit, uint32_t rank,
                               const struct record_kv_park *record) {
    struct fleet_job *job = job_of_slot(storage, unit, rank, record->slot);
    check(job && request_id_equal(job->request, record->request));
    job->in_step = false;
    if (!job->over) return;
    say_loaded(storage, job);
    drop_job(storage, job);
}

/* Copies blocks from their pages and queues them for writing. */
static void fleet_storage_copy(struct fleet_storage *storage, struct fleet_job *job,
                               int64_t now_ns) {
    const struct fleet_engine *engine = engine_of(storage, job);
    for (uint32_t i = 0; i < job->count; i++) {
        if (!job->taken[i] || !engine || has_block(storage, &job->keys[i])) continue;
        struct fleet_block *block = fleet_storage_make_room(storage);
        if (!block) {
            job->dropped++;
            continue;
        }
        *block = (struct fleet_block){.state = BLOCK_QUEUED,
                                      .unit = job->unit,
                                      .in_memory = (uint8_t)(1u << job->unit),
                                      .key = job->keys[i],
                                      .page = engine->pages[job->pages[i].index]};
        for (uint32_t slice = 0; slice < FLEET_SLICES; slice++)
            block->checksums[slice] =
                fleet_engine_checksum(&block->page.slices[slice], KV_BLOCK_TOKENS);
        block->written_ns =
            now_ns + fleet_dice_time(&storage->dice, FLEET_MS / 10, storage->write_ns_max);
        if (block->written_ns < storage->write_ns) storage->write_ns = block->written_ns;
        storage->counts.kept++;
    }
    struct record_kv_stored reported = {.record = record_head(RECORD_KV_STORED, sizeof reported),
                                        .rank = job->rank,
                                        .last_page = job->last_page,
                                        .dropped = job->dropped,
                                        .writable = !disk_fails(storage, now_ns)};
    storage->counts.dropped += job->dropped;
    storage->say(storage->context, job->unit, &reported.record);
}

static struct fleet_job *fleet_storage_add_job(struct fleet_storage *storage, enum record_kind kind,
                                               uint32_t unit, uint32_t rank, uint32_t count,
                                               const void *keys, const void *pages,
                                               int64_t now_ns) {
    check(storage->job_count < JOBS_MAX && count <= FLEET_STORAGE_KEYS_MAX);
    struct fleet_job *job = &storage->jobs[storage->job_count++];
    *job = (struct fleet_job){.kind = kind,
                              .unit = (uint8_t)unit,
                              .rank = (uint8_t)rank,
                              .asked_ns = now_ns,
                              .count = count,
                              .lost = !storage->engine_of(storage->context, unit, rank)};
    memcpy(job->keys, keys, count * sizeof *job->keys);
    if (pages) memcpy(job->pages, pages, count * sizeof *job->pages);
    bool late = storage->faults && fleet_dice_below(&storage->dice, STALE_OF) == 0;
    job->due_ns = now_ns + fleet_dice_time(&storage->dice, FLEET_MS / 100,
                                           late ? FLEET_SECOND : storage->read_ns_max);
    return job;
}

static void fleet_storage_keep(struct fleet_storage *storage, uint32_t unit, uint32_t rank,
                               const struct record_kv_put *record, int64_t now_ns) {
    struct fleet_job *job =
        fleet_storage_add_job(storage, RECORD_KV_PUT, unit, rank, record->block_count,
                              kv_keep_keys(record) + 1, kv_keep_pages(record), now_ns);
    uint32_t queued = count_queued(storage, unit);
    job->last_page = record->last_page;
    for (uint32_t i = 0; i < job->count; i++) {
        if (has_block(storage, &job->keys[i]) || disk_fails(storage, now_ns)) continue;
        job->taken[i] = queued++ < storage->queue_max;
        job->dropped += !job->taken[i];
    }
}

void fleet_storage_take(struct fleet_storage *storage, uint32_t unit, uint32_t rank,
                        const struct record *record, int64_t now_ns) {
    if (record->kind == RECORD_KV_PUT) {
        fleet_storage_keep(storage, unit, rank, (const struct record_kv_put *)record, now_ns);
        return;
    }
    if (record->kind == RECORD_KV_PARK) {
        fleet_storage_park(storage, unit, rank, (const struct record_kv_park *)record);
        return;
    }
    const struct record_kv_find *asked = (const void *)record;
    const struct record_kv_load *load = (const void *)record;
    bool finds = record->kind == RECORD_KV_FIND;
    check(finds || record->kind == RECORD_KV_LOAD);
    struct fleet_job *job =
        finds ? fleet_storage_add_job(storage, RECORD_KV_FIND, unit, rank, asked->key_count,
                                      kv_find_keys(asked), NULL, now_ns)
              : fleet_storage_add_job(storage, RECORD_KV_LOAD, unit, rank, load->block_count,
                                      kv_load_keys(load), kv_load_pages(load), now_ns);
    job->request = record_request(record);
    job->whole = job->count;
    job->fresh = finds && asked->fresh;
    job->slot = finds ? 0 : load->slot;
    job->in_step = !finds && load->in_step;
    struct fleet_engine *engine = engine_of(storage, job);
    /* from now on the load may write into these pages */
    for (uint32_t i = 0; !finds && engine && i < job->count; i++)
        fleet_engine_page_spoil(&engine->pages[job->pages[i].index]);
    for (uint32_t i = 0; !finds && i < job->count; i++) {
        const struct fleet_block *block = find_block(storage, &job->keys[i], unit, now_ns);
        if (block && job->host == i && block->in_memory >> unit & 1) job->host++;
    }
}

/* ---- time ---- */

static void fleet_storage_write_blocks(struct fleet_storage *storage, int64_t now_ns) {
    if (storage->write_ns > now_ns) return;
    storage->write_ns = MACHINE_NEVER;
    for (uint32_t i = 0; i < BLOCKS_MAX; i++) {
        struct fleet_block *block = &storage->blocks[i];
        if (block->state != BLOCK_QUEUED) continue;
        if (block->written_ns > now_ns) {
            if (block->written_ns < storage->write_ns) storage->write_ns = block->written_ns;
            continue;
        }
        block->state = disk_fails(storage, now_ns) ? BLOCK_FREE : BLOCK_WRITTEN;
    }
}

/* Continues a job. Returns true if it is answered. */
static bool fleet_storage_run_job(struct fleet_storage *storage, struct fleet_job *job,
                                  int64_t now_ns) {
    if (job->kind == RECORD_KV_FIND) {
        find(storage, job, now_ns);
    } else if (job->kind == RECORD_KV_PUT) {
        fleet_storage_copy(storage, job, now_ns);
    } else {
        if (!load_slice(storage, job, now_ns)) return false;
        job->took_ns = now_ns - job->asked_ns;
        job->over = job->in_step;
        job->due_ns = MACHINE_NEVER;
        if (job->over) return false;
        say_loaded(storage, job);
    }
    return true;
}

void fleet_storage_run(struct fleet_storage *storage, int64_t now_ns) {
    fleet_storage_write_blocks(storage, now_ns);
    for (uint32_t i = 0; i < storage->job_count; i++) {
        struct fleet_job *job = &storage->jobs[i];
        if (job->due_ns > now_ns || storage->frozen_ns[job->unit] > now_ns) continue;
        if (fleet_storage_run_job(storage, job, now_ns)) drop_job(storage, &storage->jobs[i--]);
    }
}

int64_t fleet_storage_next_ns(const struct fleet_storage *storage) {
    int64_t next_ns = MACHINE_NEVER;
    for (uint32_t i = 0; i < storage->job_count; i++) {
        const struct fleet_job *job = &storage->jobs[i];
        int64_t due_ns = job->due_ns;
        if (due_ns < storage->frozen_ns[job->unit]) due_ns = storage->frozen_ns[job->unit];
        if (due_ns < next_ns) next_ns = due_ns;
    }
    return next_ns;
}

uint32_t fleet_storage_open_count(const struct fleet_storage *storage, uint32_t unit) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < storage->job_count; i++)
        count += storage->jobs[i].unit == unit;
    return count;
}

struct fleet_load_state fleet_storage_look(const struct fleet_storage *storage, uint32_t unit,
                                           uint32_t rank, uint32_t slot) {
    const struct fleet_job *job = job_of_slot(storage, unit, rank, slot);
    if (!job) return (struct fleet_load_state){0};
    return (struct fleet_load_state){job->slice, job->whole < job->count, job->over};
}

bool fleet_storage_take_end(struct fleet_storage *storage, uint32_t unit, uint32_t rank,
                            uint32_t slot, struct load_end *end_out) {
    struct fleet_job *job = job_of_slot(storage, unit, rank, slot);
    if (!job || !job->over) return false;
    *end_out = end_of(storage, job);
    drop_job(storage, job);
    return true;
}

uint32_t fleet_storage_pages(const struct fleet_storage *storage, uint32_t job, uint32_t unit,
                             uint32_t rank, struct page_id *pages_out, bool *writes_out) {
    const struct fleet_job *of = &storage->jobs[job];
    if (of->unit != unit || of->rank != rank || of->lost || of->kind == RECORD_KV_FIND) return 0;
    memcpy(pages_out, of->pages, of->count * sizeof *pages_out);
    *writes_out = of->kind == RECORD_KV_LOAD;
    return of->count;
}

/* ---- faults ---- */

void fleet_storage_flip(struct fleet_storage *storage) {
    struct fleet_dice *dice = &storage->dice;
    struct fleet_block *block = &storage->blocks[fleet_dice_below(dice, storage->capacity)];
    uint32_t slice = fleet_dice_below(dice, FLEET_SLICES);
    uint32_t at = fleet_dice_below(dice, FLEET_GROUPS * KV_BLOCK_TOKENS);
    if (block->state != BLOCK_WRITTEN) return;
    block->page.slices[slice].groups[at / KV_BLOCK_TOKENS][at % KV_BLOCK_TOKENS] ^=
        (uint64_t)1 << fleet_dice_below(dice, 64);
}

void fleet_storage_bury(struct fleet_storage *storage, uint32_t unit, uint32_t rank) {
    for (uint32_t i = 0; i < storage->job_count; i++)
        storage->jobs[i].lost |= storage->jobs[i].unit == unit && storage->jobs[i].rank == rank;
}

/* Stops a unit. Leaves some of its queued blocks half written. */
void fleet_storage_stop(struct fleet_storage *storage, uint32_t unit) {
    for (uint32_t i = 0; i < BLOCKS_MAX; i++) {
        struct fleet_block *block = &storage->blocks[i];
        block->in_memory &= (uint8_t) ~(1u << unit);
        if (block->state != BLOCK_QUEUED || block->unit != unit) continue;
        block->state = BLOCK_FREE;
        if (fleet_dice_below(&storage->dice, TORN_OF)) continue;
        block->state = BLOCK_WRITTEN;
        memset(&block->page.slices[1], 0, sizeof block->page.slices[1]);
    }
    for (uint32_t i = 0; i < storage->job_count; i++)
        if (storage->jobs[i].unit == unit) storage->jobs[i--] = storage->jobs[--storage->job_count];
    storage->frozen_ns[unit] = 0;
}
