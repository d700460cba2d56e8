/* SPDX-License-Identifier: Apache-2.0
 * The simulator's KV storage: memory of each rank, and disks that all units share, which every node
 * reaches over a link of its own in each direction. Stored and loaded blocks pass through the
 * rank's memory and stay there until their space is needed.
 *
 * Rules: a lookup takes no time, as the index is in memory. Blocks move between a rank and its
 * memory at the rate of the rank's network link (both are on the same bus), and loads do not delay
 * each other there. Loads from disk queue at their node's link, and so do writes. A rank may have
 * QUEUE_BYTES waiting to be written; more are dropped. A block that is on disk is not written
 * again.
 */
#pragma once

#include "contract/record_kv.h"
#include "simulate/simulator/simulator_blocks.h"

#define SIMULATOR_DISK_BLOCKS_MAX (1u << 22) /* blocks remembered at once */

struct simulator_job { /* an answer in transit */
    uint32_t unit, connection;
    uint64_t stamp; /* 0: none */
    union {
        struct record record;
        struct record_kv kv;
        struct record_kv_found found;
        struct record_kv_loaded loaded;
        struct record_kv_stored kept;
    } answer;
};

struct simulator_store {               /* of one unit */
    struct simulator_blocks *memories; /* [ranks] */
    int64_t *read_ns, *write_ns;       /* [nodes] when the node's links are free */
    double memory_byte_ns, disk_byte_ns;
    int64_t latency_ns;
    uint32_t ranks, ranks_per_node;
    uint32_t connection; /* of its present incarnation */
};

struct simulator_disks {
    struct simulator_store *stores; /* [unit] */
    struct simulator_blocks disk;
    struct simulator_job *jobs; /* [job_max] */
    uint32_t *free_jobs;        /* free_count of them */
    uint32_t job_max, free_count;
    uint64_t stamps;
    double block_bytes;
    double read_bytes, written_bytes; /* from and to disk, so far */
    double slowness;                  /* factor on the disks' times; normally 1 */
    uint32_t failures;                /* > 0: they neither read nor write */
    void *context;
    /* Schedules the job's answer at that time (simulator_storage_end). */
    void (*due)(void *context, uint32_t job, int64_t due_ns, uint64_t stamp);
};

size_t simulator_storage_bytes(uint32_t disk_blocks, uint32_t job_max);
size_t simulator_storage_unit_bytes(uint32_t memory_blocks, uint32_t ranks);

/* The caller sets `due`, the figures and the stores. Returns false if the arena is out of
 * memory. */
bool simulator_storage_open(struct simulator_disks *storage, struct arena *arena,
                            uint32_t disk_blocks, uint32_t job_max);
bool simulator_storage_open_unit(struct simulator_store *store, struct arena *arena,
                                 uint32_t memory_blocks, uint32_t ranks, uint32_t ranks_per_node);

/* The unit dies and loses its memory. */
void simulator_storage_stop(struct simulator_disks *storage, uint32_t unit);

/* Handles a unit's KV_FIND. The first `stored` of its keys were on disk before the run. */
void simulator_storage_find(struct simulator_disks *storage, uint32_t unit,
                            const struct record_kv_find *find, uint32_t stored, int64_t now_ns);

/* Handles KV_LOAD and KV_PUT. `free`: it takes no time. */
void simulator_storage_load(struct simulator_disks *storage, uint32_t unit,
                            const struct record_kv_load *load, bool free, int64_t now_ns);
void simulator_storage_keep(struct simulator_disks *storage, uint32_t unit,
                            const struct record_kv_put *keep, bool free, int64_t now_ns);

/* Call it at the time that `due` was given. Returns the record to send and its receiver, or NULL if
 * the job is no longer valid. Valid until the next call of this module. */
const struct record *simulator_storage_end(struct simulator_disks *storage, uint32_t index,
                                           uint64_t stamp, uint32_t *unit_out);

uint32_t simulator_storage_open_count(const struct simulator_disks *storage);
