/* SPDX-License-Identifier: Apache-2.0
 * The KV storage of a simulated fleet: one disk that all units share, and the host memory of each
 * unit, in virtual time, on pages of numbers. It gives the same guarantees as
 * host/storage/kv_store. A load may write into its pages, slice by slice, until it is answered, and
 * blocks that fail verification do not count. A block to store may be read from its page until the
 * request is answered.
 *
 * Under faults, the disk fails for a while, blocks are damaged, a killed unit leaves torn blocks
 * and loses queued ones, the write queue is full, blocks are evicted, and answers are late.
 */
#pragma once

#include "contract/machine.h"
#include "simulate/pages/fleet_carriers.h"

struct fleet_storage_counts {
    uint64_t loaded, kept, dropped, refused; /* blocks; refused: a load found them damaged */
};

struct fleet_storage {
    struct fleet_dice dice;
    struct fleet_log *log;
    bool faults; /* may be cleared at any time */
    uint32_t capacity, queue_max;
    int64_t read_ns_max, write_ns_max;
    int64_t off_ns; /* the disk fails until then */
    struct fleet_block *blocks;
    struct fleet_job *jobs; /* [job_count] unanswered requests */
    uint32_t job_count;
    int64_t write_ns;                   /* the writer is busy until then */
    int64_t frozen_ns[FLEET_UNITS_MAX]; /* the unit's processes are frozen until then */
    struct fleet_storage_counts counts;
    void *context;
    /* The engine of a rank, with its pages; NULL if the process is dead. */
    struct fleet_engine *(*engine_of)(void *context, uint32_t unit, uint32_t rank);
    /* Sends the unit a KV_FOUND, KV_LOADED or KV_STORED. */
    void (*say)(void *context, uint32_t unit, const struct record *record);
};

/* Opens the dice and the memory. Afterwards the caller sets all other members. Returns false if the
 * arena is out of memory. */
bool fleet_storage_open(struct fleet_storage *storage, struct arena *arena, uint64_t seed);

/* Handles a KV_FIND, KV_LOAD or KV_PUT. */
void fleet_storage_take(struct fleet_storage *storage, uint32_t unit, uint32_t rank,
                        const struct record *record, int64_t now_ns);

/* Kills all processes of the unit. */
void fleet_storage_stop(struct fleet_storage *storage, uint32_t unit);

/* Kills the process of one rank. Its requests no longer access pages, which belong to its
 * successor. */
void fleet_storage_bury(struct fleet_storage *storage, uint32_t unit, uint32_t rank);

/* Flips one bit somewhere on the disk. */
void fleet_storage_flip(struct fleet_storage *storage);

void fleet_storage_run(struct fleet_storage *storage, int64_t now_ns);
int64_t fleet_storage_next_ns(const struct fleet_storage *storage);

enum { FLEET_STORAGE_KEYS_MAX = 16 };

/* Writes the pages of a rank that the job reads or writes to pages_out[FLEET_STORAGE_KEYS_MAX].
 * Returns their number. */
uint32_t fleet_storage_pages(const struct fleet_storage *storage, uint32_t job, uint32_t unit,
                             uint32_t rank, struct page_id *pages_out, bool *writes_out);

/* The progress of a slot's KV_LOAD with in_step set. */
struct fleet_load_state {
    uint32_t slices; /* slices that have arrived of all its blocks; 0 if the load is not there
                      * yet */
    bool broken;     /* at least one block will not be complete */
    bool over;
};
struct fleet_load_state fleet_storage_look(const struct fleet_storage *storage, uint32_t unit,
                                           uint32_t rank, uint32_t slot);

/* Takes the end of that load for the engine. Returns false if it has not ended. */
bool fleet_storage_take_end(struct fleet_storage *storage, uint32_t unit, uint32_t rank,
                            uint32_t slot, struct load_end *end_out);

/* The number of unanswered requests of a unit. */
uint32_t fleet_storage_open_count(const struct fleet_storage *storage, uint32_t unit);
