/* SPDX-License-Identifier: Apache-2.0
 * KV records to and from the ranks of a unit. Each rank has its own ways for KV blocks, on its own
 * pages: a transport and a carrier to other units' ranks, and a tier to the KV storage. Rank 0 has
 * them in its event loop. Another rank has them in a thread (kv_agent), which gets the records of
 * rank 0's unit over a wire between the ranks, and answers over it. Rank 0
 * answers for a dead rank (host/transfer/kv_asked.h). When the rank is back, it sends its new
 * address.
 *
 *   rank 0   kv_ranks_open (waits for the others), kv_ranks_addresses, kv_ranks_take
 *   others   kv_ranks_agent_open, kv_ranks_agent_close around the life of their model
 */
#ifndef HOST_TRANSFER_KV_RANKS_H
#define HOST_TRANSFER_KV_RANKS_H

#include "contract/record_kv.h"
#include "host/engine/engine.h"
#include "host/engine/step_progress.h"
#include "host/storage/kv_host_cache.h"

struct event_base;
struct kv_ranks;
struct kv_agent;

struct kv_ranks_options {
    const struct kv_pages *pages; /* this rank's; they outlive it */
    const uint8_t *model_id;      /* [32] */
    const char *numerics_id;
    struct step_progress *progress; /* of the engine that writes the pages; NULL: not reported */
    /* Numeric address where other units reach this rank's transport; NULL: there is none. */
    const char *host;
    /* This rank's share of the unit's; neither directory nor host_bytes: there is none. */
    struct kv_store_options storage;
    const char *control; /* the wire between the ranks; NULL: there is one rank */
    uint32_t rank;
    uint32_t rank_count;
    int64_t death_ns_max;      /* for the word that a silent rank has died; 0: 15 s */
    double seconds_max;        /* that a transfer may take */
    uint64_t bytes_per_second; /* sent at most; 0: no bound */
    bool by_step;              /* blocks leave when the step is done that makes them */
    void *context;
    /* KV_DONE, FOUND, LOADED and KEPT, of any rank, and the KV_HELLO of one that comes back; also from
     * within kv_ranks_take. */
    void (*say)(void *context, const struct record *record);
    /* A rank's wire is silent, and no death was reported: its requests may never be answered,
     * or run after the unit has reused their pages, so the unit is lost. */
    void (*lost)(void *context, const struct error *error);
};

/* Is there any way for KV blocks at all? */
bool kv_ranks_wanted(const struct kv_ranks_options *options);

enum status kv_ranks_open(const struct kv_ranks_options *options, struct event_base *base,
                          struct kv_ranks **ranks_out, struct error *error) MUST_USE;
void kv_ranks_close(struct kv_ranks *ranks);

/* [rank_count] for the unit's hello; empty without transports. */
const char (*kv_ranks_addresses(const struct kv_ranks *ranks))[KV_ADDRESS_BYTES];

/* For rank 0's engine; empty without a storage. */
struct engine_loads kv_ranks_loads(struct kv_ranks *ranks);

/* Rank 0's; NULL: none. */
struct kv_store *kv_ranks_store(const struct kv_ranks *ranks);

/* KV_EXPECT, KV_PUSH, KV_CANCEL, KV_FIND, KV_LOAD, KV_PARK, KV_PUT: to the rank that they name. A
 * DRAIN of a rank that is dead: whatever it was asked, and is until it comes back, gets the answer that
 * nothing came of it. */
void kv_ranks_take(struct kv_ranks *ranks, const struct record *record);

/* `options`: context, say and lost are not used. */
enum status kv_ranks_agent_open(const struct kv_ranks_options *options, struct kv_agent **agent_out,
                                struct error *error) MUST_USE;
void kv_ranks_agent_close(struct kv_agent *agent);

/* For this rank's engine; empty without a storage. */
struct engine_loads kv_ranks_agent_loads(struct kv_agent *agent);

#endif
