/* SPDX-License-Identifier: Apache-2.0
 * The KV storage of the simulator: host memory of each rank, and disks that all units share. Every
 * node reaches the disks over its own link, one for each direction. Stored and loaded blocks pass
 * through the rank's host memory and stay there until their space is needed.
 *
 * Rules: a lookup takes no time, because the index is in memory. Blocks move between a rank and its
 * host memory at the rate of the rank's network link (both are on the same bus), and loads do not
 * delay each other there. Loads from disk queue at the link of their node, and so do writes. A rank
 * may have QUEUE_BYTES waiting to be written; what exceeds that is dropped. A block that is on disk
 * is not written again.
 */
#pragma once

#include "contract/record_kv.h"
#include "simulate/simulator/simulator_blocks.h"

#define SIMULATOR_DISK_BLOCKS_MAX (1u << 22) /* limit of the blocks on disk */

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
    int64_t *read_ns, *write_ns;       /* [nodes] when the links of the node are free */
    double memory_byte_ns, disk_byte_ns;
    int64_t latency_ns;
    uint32_t ranks, ranks_per_node;
    uint32_t connection; /* of the current incarnation */
};

struct simulator_disks {
    struct simulator_store *stores; /* [unit] */
    struct simulator_blocks disk;
    struct simulator_job *jobs; /* [job_max] */
    uint32_t *free_jobs;        /* free_count of them */
    uint32_t job_max, free_count;
    uint64_t stamps;
    double block_bytes;
    double read_bytes, written_bytes; /* from and to disk so far */
    double slowness;                  /* factor on disk times; normally 1 */
    uint32_t failures;                /* > 0: disks cannot be read or written */
    void *context;
    /* Schedules the answer of a job (simulator_storage_end). */
    void (*due)(void *context, uint32_t job, int64_t due_ns, uint64_t stamp);
};

size_t simulator_storage_bytes(uint32_t disk_blocks, uint32_t job_max);
size_t simulator_storage_unit_bytes(uint32_t memory_blocks, uint32_t ranks);

/* Afterwards the caller sets `due`, the figures and the stores. Returns false if the arena is out
 * of memory. */
bool simulator_storage_open(struct simulator_disks *storage, struct arena *arena,
                            uint32_t disk_blocks, uint32_t job_max);
bool simulator_storage_open_unit(struct simulator_store *store, struct arena *arena,
                                 uint32_t memory_blocks, uint32_t ranks, uint32_t ranks_per_node);

/* The unit dies and loses its host memory. */
void simulator_storage_stop(struct simulator_disks *storage, uint32_t unit);

/* Handles a unit's KV_FIND. The first `stored` keys were on disk before the run. */
void simulator_storage_find(struct simulator_disks *storage, uint32_t unit,
                            const struct record_kv_find *find, uint32_t stored, int64_t now_ns);

/* Handle a KV_LOAD and a KV_PUT. With `free`, they take no time. */
void simulator_storage_load(struct simulator_disks *storage, uint32_t unit,
                            const struct record_kv_load *load, bool free, int64_t now_ns);
void simulator_storage_keep(struct simulator_disks *storage, uint32_t unit,
                            const struct record_kv_put *keep, bool free, int64_t now_ns);

/* Must be called at the time that was passed to `due`. Returns the record to send and its receiver,
 * or NULL if the job is no longer valid. The record is valid until the next call of this module. */
const struct record *simulator_storage_end(struct simulator_disks *storage, uint32_t index,
                                           uint64_t stamp, uint32_t *unit_out);

uint32_t simulator_storage_open_count(const struct simulator_disks *storage);
