/* SPDX-License-Identifier: Apache-2.0
 * Forwards KV records between a unit and its ranks. Each rank moves the KV blocks of its own pages:
 * with a transport to ranks of other units, and with a host cache to the KV storage. Rank 0 does so
 * in its event loop. Each other rank has a thread (kv_agent) that receives the unit's records from
 * rank 0 over a wire between the ranks and answers over it. Rank 0 answers for a dead rank
 * (host/transfer/kv_asked.h). A rank that rejoins sends its new address.
 *
 *   rank 0   kv_ranks_open (waits for the others), kv_ranks_addresses, kv_ranks_take
 *   others   kv_ranks_agent_open and kv_ranks_agent_close, while their model is open
 */
#pragma once

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
    /* Numeric address of this rank's transport for other units; NULL: no transport. */
    const char *host;
    /* This rank's share of the unit's storage; without directory and host_bytes there is none. */
    struct kv_store_options storage;
    const char *control; /* the wire between the ranks; NULL: there is one rank */
    uint32_t rank;
    uint32_t rank_count;
    int64_t death_ns_max;      /* time for the report that a silent rank has died; 0: 15 s */
    double seconds_max;        /* timeout of a transfer */
    uint64_t bytes_per_second; /* limit of sending; 0: none */
    bool by_step;              /* blocks are sent at the end of the step that makes them */
    void *context;
    /* Receives KV_DONE, KV_FOUND, KV_LOADED and KV_STORED of any rank, and KV_HELLO of a rank that
     * rejoins. May be called within kv_ranks_take. */
    void (*say)(void *context, const struct record *record);
    /* A rank is disconnected, and its death was not reported in time. Its requests may never be
     * answered, or may run after the unit has reused their pages, so the unit is lost. */
    void (*lost)(void *context, const struct error *error);
};

/* True if the options have a transport or a storage. */
bool kv_ranks_wanted(const struct kv_ranks_options *options);

enum status kv_ranks_open(const struct kv_ranks_options *options, struct event_base *base,
                          struct kv_ranks **ranks_out, struct error *error) MUST_USE;
void kv_ranks_close(struct kv_ranks *ranks);

/* [rank_count] addresses of the ranks' transports for the unit's hello; "" without transports. */
const char (*kv_ranks_addresses(const struct kv_ranks *ranks))[KV_ADDRESS_BYTES];

/* The loads interface for rank 0's engine; all zeros without a storage. */
struct engine_loads kv_ranks_loads(struct kv_ranks *ranks);

/* The storage of rank 0; NULL: none. */
struct kv_store *kv_ranks_store(const struct kv_ranks *ranks);

/* Forwards KV_EXPECT, KV_PUSH, KV_CANCEL, KV_FIND, KV_LOAD, KV_PARK and KV_PUT to the rank that
 * they name. After a DRAIN of a dead rank, its open requests, and all further ones until it
 * rejoins, get negative answers. */
void kv_ranks_take(struct kv_ranks *ranks, const struct record *record);

/* For ranks other than 0. The options context, say and lost are not used. */
enum status kv_ranks_agent_open(const struct kv_ranks_options *options, struct kv_agent **agent_out,
                                struct error *error) MUST_USE;
void kv_ranks_agent_close(struct kv_agent *agent);

/* The loads interface for this rank's engine; all zeros without a storage. */
struct engine_loads kv_ranks_agent_loads(struct kv_agent *agent);
