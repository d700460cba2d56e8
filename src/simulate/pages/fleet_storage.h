/* SPDX-License-Identifier: Apache-2.0
 * The KV storage of a simulated fleet: one disk that all units share, and each unit's own host
 * memory, in virtual time on pages of numbers. Its guarantees are those of host/storage/kv_store. A
 * load writes into its pages, slice by slice, until it is answered, and blocks that fail
 * verification do not count. A block to store may be read from its page at any time until the
 * request is answered.
 *
 * Under faults the disk fails for a while, blocks are damaged, a killed unit leaves torn blocks and
 * loses queued ones, the writer's queue is full, blocks are evicted, and answers are late.
 */
#pragma once

#include "contract/machine.h"
#include "simulate/pages/fleet_carriers.h"

struct fleet_storage_counts {
    uint64_t loaded, kept, dropped, refused; /* blocks; refused: damage that a load found */
};

struct fleet_storage {
    struct fleet_dice dice;
    struct fleet_log *log;
    bool faults; /* may be cleared at any time */
    uint32_t capacity, queue_max;
    int64_t read_ns_max, write_ns_max;
    int64_t off_ns; /* the disk fails until then */
    struct fleet_block *blocks;
    struct fleet_job *jobs; /* [job_count] requests that are not answered yet */
    uint32_t job_count;
    int64_t write_ns;                   /* no block is written before then */
    int64_t frozen_ns[FLEET_UNITS_MAX]; /* its processes are frozen until then */
    struct fleet_storage_counts counts;
    void *context;
    /* The engine of a unit's rank, with its pages; NULL if its process is dead. */
    struct fleet_engine *(*engine_of)(void *context, uint32_t unit, uint32_t rank);
    /* Sends the unit a KV_FOUND, KV_LOADED or KV_STORED. */
    void (*say)(void *context, uint32_t unit, const struct record *record);
};

/* Opens the dice and the memory. The caller sets all other members afterwards. */
bool fleet_storage_open(struct fleet_storage *storage, struct arena *arena, uint64_t seed);

/* Receives a KV_FIND, KV_LOAD or KV_PUT. */
void fleet_storage_take(struct fleet_storage *storage, uint32_t unit, uint32_t rank,
                        const struct record *record, int64_t now_ns);

/* Kills the unit's processes. */
void fleet_storage_stop(struct fleet_storage *storage, uint32_t unit);

/* Kills one rank's process. Earlier requests of it access no page of its successor. */
void fleet_storage_bury(struct fleet_storage *storage, uint32_t unit, uint32_t rank);

/* Flips a bit somewhere on the disk. */
void fleet_storage_flip(struct fleet_storage *storage);

void fleet_storage_run(struct fleet_storage *storage, int64_t now_ns);
int64_t fleet_storage_next_ns(const struct fleet_storage *storage);

enum { FLEET_STORAGE_KEYS_MAX = 16 };

/* Writes the pages of that rank that the job reads or writes to pages_out[..KEYS_MAX]. Returns how
 * many. */
uint32_t fleet_storage_pages(const struct fleet_storage *storage, uint32_t job, uint32_t unit,
                             uint32_t rank, struct page_id *pages_out, bool *writes_out);

/* The progress of the slot's KV_LOAD with in_step. */
struct fleet_load_state {
    uint32_t slices; /* slices of all its blocks that have arrived; also 0 if there is no such load
                      * yet */
    bool broken;     /* not all blocks will be whole */
    bool over;
};
struct fleet_load_state fleet_storage_look(const struct fleet_storage *storage, uint32_t unit,
                                           uint32_t rank, uint32_t slot);

/* Takes the result of that load for the engine. Returns false if it has not ended. */
bool fleet_storage_take_end(struct fleet_storage *storage, uint32_t unit, uint32_t rank,
                            uint32_t slot, struct load_end *end_out);

/* The number of a unit's requests that are not answered yet. */
uint32_t fleet_storage_open_count(const struct fleet_storage *storage, uint32_t unit);
