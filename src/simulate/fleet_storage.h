/* SPDX-License-Identifier: Apache-2.0
 * The KV storage of a simulated fleet: one disk that all units share, and each unit's own host
 * memory, in virtual time on pages of numbers. What host/storage/kv_store promises, and no more: a
 * load writes into its pages, slice by slice, until it is answered, and what it could not check
 * does not count; a block that is kept is read from its page at any time until that is answered.
 *
 * Under faults the disk fails for a while, blocks are damaged, a killed unit leaves torn blocks and
 * none of those that still waited, the writer's queue is full, blocks are evicted, answers are
 * late.
 */
#ifndef SIMULATE_FLEET_STORAGE_H
#define SIMULATE_FLEET_STORAGE_H

#include "contract/machine.h"
#include "simulate/fleet_carriers.h"

struct fleet_storage_counts {
    uint64_t found, loaded, kept, dropped, evicted; /* blocks */
    uint64_t torn, flipped, refused;                /* refused: damage that a load found */
};

struct fleet_storage {
    struct fleet_dice dice;
    struct fleet_log *log;
    bool faults; /* may be cleared at any time */
    uint32_t capacity, queue_max;
    int64_t read_ns_max, write_ns_max;
    int64_t off_ns; /* until then the disk fails */
    struct fleet_block *blocks;
    struct fleet_job *jobs; /* [job_count] questions that are not answered yet */
    uint32_t job_count;
    int64_t write_ns; /* no block is written before */
    uint64_t most_queued;
    int64_t frozen_ns[FLEET_UNITS_MAX]; /* until then its processes stand still */
    struct fleet_storage_counts counts;
    void *context;
    /* The pages of a unit's rank; NULL: its process is dead. */
    struct fleet_engine *(*engine_of)(void *context, uint32_t unit, uint32_t rank);
    /* KV_FOUND, KV_LOADED or KV_KEPT for that unit. */
    void (*say)(void *context, uint32_t unit, const struct record *record);
};

size_t fleet_storage_bytes(void);

/* All but the dice and the memory is the caller's to set afterwards. */
bool fleet_storage_open(struct fleet_storage *storage, struct arena *arena, uint64_t seed);

/* KV_FIND, KV_LOAD, KV_KEEP. */
void fleet_storage_take(struct fleet_storage *storage, uint32_t unit, uint32_t rank,
                        const struct record *record, int64_t now_ns);

/* The unit's processes die. */
void fleet_storage_stop(struct fleet_storage *storage, uint32_t unit);

/* One rank's process dies: what it was asked before touches no page of whoever comes in its place. */
void fleet_storage_bury(struct fleet_storage *storage, uint32_t unit, uint32_t rank);

/* A bit flips somewhere on the disk. */
void fleet_storage_flip(struct fleet_storage *storage);

void fleet_storage_run(struct fleet_storage *storage, int64_t now_ns);
int64_t fleet_storage_next_ns(const struct fleet_storage *storage);

enum { FLEET_STORAGE_KEYS_MAX = 16 };

/* The pages of that rank that the job reads or writes: how many; pages_out[..KEYS_MAX]. */
uint32_t fleet_storage_pages(const struct fleet_storage *storage, uint32_t job, uint32_t unit,
                             uint32_t rank, struct page_id *pages_out, bool *writes_out);

/* How far the slot's KV_LOAD with in_step is. */
struct fleet_load_state {
    uint32_t slices; /* that have come, of all its blocks; 0 also: there is no such load yet */
    bool broken;     /* not all blocks will be whole */
    bool over;
};
struct fleet_load_state fleet_storage_look(const struct fleet_storage *storage, uint32_t unit,
                                           uint32_t rank, uint32_t slot);

/* The engine takes that load's end; false: it is not over. */
bool fleet_storage_take_end(struct fleet_storage *storage, uint32_t unit, uint32_t rank,
                            uint32_t slot, struct load_end *end_out);

/* Questions of a unit that are not answered yet. */
uint32_t fleet_storage_open_count(const struct fleet_storage *storage, uint32_t unit);

#endif
