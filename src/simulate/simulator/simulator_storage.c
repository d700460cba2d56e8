/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/simulator/simulator_storage.h"

#include "base/check.h"
#include "base/number.h"

#define QUEUE_BYTES 67108864.0 /* 64 MiB, as in the host of a unit (programs/unit_side.c) */

size_t simulator_storage_bytes(uint32_t disk_blocks, uint32_t job_max) {
    return simulator_blocks_bytes(disk_blocks) +
           job_max * (sizeof(struct simulator_job) + sizeof(uint32_t)) + 128;
}

size_t simulator_storage_unit_bytes(uint32_t memory_blocks, uint32_t ranks) {
    return ranks * (simulator_blocks_bytes(memory_blocks) + sizeof(struct simulator_blocks) +
                    2 * sizeof(int64_t)) +
           128;
}

bool simulator_storage_open(struct simulator_disks *storage, struct arena *arena,
                            uint32_t disk_blocks, uint32_t job_max) {
    *storage = (struct simulator_disks){.job_max = job_max, .free_count = job_max, .slowness = 1};
    storage->jobs = arena_take_zeroed(arena, job_max * sizeof *storage->jobs);
    storage->free_jobs = arena_take(arena, job_max * sizeof *storage->free_jobs);
    if (!storage->jobs || !storage->free_jobs ||
        !simulator_blocks_open(&storage->disk, arena, disk_blocks))
        return false;
    for (uint32_t i = 0; i < job_max; i++)
        storage->free_jobs[i] = job_max - 1 - i;
    return true;
}

bool simulator_storage_open_unit(struct simulator_store *store, struct arena *arena,
                                 uint32_t memory_blocks, uint32_t ranks, uint32_t ranks_per_node) {
    uint32_t nodes = (uint32_t)divide_up(ranks, max_u32(1, ranks_per_node));
    *store = (struct simulator_store){.ranks = ranks, .ranks_per_node = max_u32(1, ranks_per_node)};
    store->memories = arena_take(arena, ranks * sizeof *store->memories);
    store->read_ns = arena_take_zeroed(arena, nodes * sizeof *store->read_ns);
    store->write_ns = arena_take_zeroed(arena, nodes * sizeof *store->write_ns);
    if (!store->memories || !store->read_ns || !store->write_ns) return false;
    for (uint32_t rank = 0; rank < ranks; rank++)
        if (!simulator_blocks_open(&store->memories[rank], arena, memory_blocks)) return false;
    return true;
}

/* ---- answers ---- */

static void simulator_storage_answer(struct simulator_disks *storage, uint32_t unit,
                                     struct simulator_job job, int64_t due_ns) {
    check(storage->free_count > 0);
    uint32_t index = storage->free_jobs[--storage->free_count];
    job.unit = unit;
    job.connection = storage->stores[unit].connection;
    job.stamp = ++storage->stamps;
    storage->jobs[index] = job;
    storage->due(storage->context, index, due_ns, job.stamp);
}

const struct record *simulator_storage_end(struct simulator_disks *storage, uint32_t index,
                                           uint64_t stamp, uint32_t *unit_out) {
    struct simulator_job *job = &storage->jobs[index];
    check(job->stamp == stamp);
    job->stamp = 0;
    storage->free_jobs[storage->free_count++] = index;
    *unit_out = job->unit;
    bool lives = storage->stores[job->unit].connection == job->connection;
    return lives ? &job->answer.record : NULL;
}

void simulator_storage_stop(struct simulator_disks *storage, uint32_t unit) {
    struct simulator_store *store = &storage->stores[unit];
    store->connection = 0;
    for (uint32_t rank = 0; rank < store->ranks; rank++)
        simulator_blocks_clear(&store->memories[rank]);
}

uint32_t simulator_storage_open_count(const struct simulator_disks *storage) {
    return storage->job_max - storage->free_count;
}

/* ---- placement of blocks ---- */

enum where { NOWHERE, IN_MEMORY, ON_DISK };

static enum where simulator_storage_look(struct simulator_disks *storage,
                                         struct simulator_blocks *memory,
                                         const struct block_key *key, bool use, int64_t now_ns) {
    if (simulator_blocks_has(memory, key, use, now_ns)) return IN_MEMORY;
    if (storage->failures > 0) return NOWHERE;
    return simulator_blocks_has(&storage->disk, key, use, now_ns) ? ON_DISK : NOWHERE;
}

#define AHEAD 16 /* number of keys that are prefetched at once */

/* Prefetches the entries of the next keys before keys[i] of `count` is looked up. */
static void simulator_storage_look_ahead(const struct simulator_disks *storage,
                                         const struct block_key *keys, uint32_t i, uint32_t count) {
    if (i % AHEAD == 0)
        simulator_blocks_prefetch(&storage->disk, keys + i, min_u32(AHEAD, count - i));
}

void simulator_storage_find(struct simulator_disks *storage, uint32_t unit,
                            const struct record_kv_find *find, uint32_t stored, int64_t now_ns) {
    struct simulator_blocks *memory = &storage->stores[unit].memories[find->rank];
    struct simulator_job job = {
        .answer.found = {.record = record_head(RECORD_KV_FOUND, sizeof job.answer.found),
                         .request = find->request,
                         .rank = find->rank}};
    for (uint32_t i = 0; i < stored && i < find->key_count; i++) {
        simulator_storage_look_ahead(storage, kv_find_keys(find), i, find->key_count);
        simulator_blocks_add(&storage->disk, &kv_find_keys(find)[i], 0);
    }
    for (uint32_t i = 0; i < find->key_count; i++) {
        enum where where =
            simulator_storage_look(storage, memory, &kv_find_keys(find)[i], false, now_ns);
        if (where == NOWHERE) break;
        job.answer.found.blocks++;
        job.answer.found.host_blocks += where == IN_MEMORY;
    }
    simulator_storage_answer(storage, unit, job, now_ns);
}

void simulator_storage_load(struct simulator_disks *storage, uint32_t unit,
                            const struct record_kv_load *load, bool free, int64_t now_ns) {
    struct simulator_store *store = &storage->stores[unit];
    struct simulator_blocks *memory = &store->memories[load->rank];
    struct load_end end = {0};
    check(!load->in_step); /* units of the simulator load before a step, not in it */
    for (; end.blocks < load->block_count; end.blocks++) {
        const struct block_key *key = &kv_load_keys(load)[end.blocks];
        enum where where = simulator_storage_look(storage, memory, key, true, now_ns);
        if (where == NOWHERE) break;
        end.host_blocks += where == IN_MEMORY;
        simulator_blocks_add(memory, key, now_ns);
    }
    double far = (end.blocks - end.host_blocks) * storage->block_bytes;
    int64_t end_ns =
        now_ns + (int64_t)(end.host_blocks * storage->block_bytes * store->memory_byte_ns);
    int64_t *link_ns = &store->read_ns[load->rank / store->ranks_per_node];
    if (far > 0 && !free) {
        if (*link_ns < now_ns) *link_ns = now_ns;
        *link_ns += (int64_t)(far * store->disk_byte_ns * storage->slowness);
        int64_t there_ns = *link_ns + (int64_t)((double)store->latency_ns * storage->slowness);
        if (there_ns > end_ns) end_ns = there_ns;
    }
    if (free) end_ns = now_ns;
    storage->read_bytes += far;
    end.ns = end_ns - now_ns;
    struct simulator_job job = {
        .answer.loaded = {.record = record_head(RECORD_KV_LOADED, sizeof job.answer.loaded),
                          .request = load->request,
                          .rank = load->rank,
                          .end = end}};
    simulator_storage_answer(storage, unit, job, end_ns);
}

/* Writes a block to disk if the queue has space. *whole_ns_out is the time at which it is complete
 * there. */
static bool write(struct simulator_disks *storage, struct simulator_store *store, uint32_t rank,
                  bool free, int64_t now_ns, int64_t *whole_ns_out) {
    int64_t *link_ns = &store->write_ns[rank / store->ranks_per_node];
    if (*link_ns < now_ns) *link_ns = now_ns;
    double byte_ns = store->disk_byte_ns * storage->slowness;
    double waiting = (double)(*link_ns - now_ns) / byte_ns;
    if (storage->failures > 0 || waiting > QUEUE_BYTES * store->ranks_per_node) return false;
    if (!free) *link_ns += (int64_t)(storage->block_bytes * byte_ns);
    *whole_ns_out = free ? now_ns : *link_ns + store->latency_ns;
    storage->written_bytes += storage->block_bytes;
    return true;
}

void simulator_storage_keep(struct simulator_disks *storage, uint32_t unit,
                            const struct record_kv_put *keep, bool free, int64_t now_ns) {
    struct simulator_store *store = &storage->stores[unit];
    double bytes = keep->block_count * storage->block_bytes;
    struct simulator_job job = {
        .answer.kept = {.record = record_head(RECORD_KV_STORED, sizeof job.answer.kept),
                        .rank = keep->rank,
                        .writable = storage->failures == 0,
                        .last_page = keep->last_page}};
    for (uint32_t i = 0; i < keep->block_count; i++) {
        const struct block_key *key = &kv_keep_keys(keep)[i + 1];
        simulator_storage_look_ahead(storage, kv_keep_keys(keep) + 1, i, keep->block_count);
        int64_t whole_ns;
        simulator_blocks_add(&store->memories[keep->rank], key, now_ns);
        if (storage->disk.capacity == 0) continue;
        if (storage->failures == 0 && simulator_blocks_knows(&storage->disk, key))
            simulator_blocks_add(&storage->disk, key, INT64_MAX); /* also counts as a use */
        else if (write(storage, store, keep->rank, free, now_ns, &whole_ns))
            simulator_blocks_add(&storage->disk, key, whole_ns);
        else
            job.answer.kept.dropped++;
    }
    simulator_storage_answer(storage, unit, job,
                             free ? now_ns : now_ns + (int64_t)(bytes * store->memory_byte_ns));
}
