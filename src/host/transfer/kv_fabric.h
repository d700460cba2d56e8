/* SPDX-License-Identifier: Apache-2.0
 * The KV blocks' ways in and out of all ranks of a unit: to and from other units' ranks (a
 * transport and a carrier), to and from the KV storage (a tier). Every rank has its own, on its own
 * pages: rank 0 in its event loop, another rank in a thread (kv_agent), which hears what rank 0's
 * unit says, and answers, over a wire to it.
 *
 *   rank 0   kv_fabric_open (waits for the others), kv_fabric_addresses, kv_fabric_take
 *   others   kv_agent_open, kv_agent_close around the life of their model
 */
#ifndef HOST_TRANSFER_KV_FABRIC_H
#define HOST_TRANSFER_KV_FABRIC_H

#include "contract/step_plan.h"
#include "host/engine/step_progress.h"
#include "host/storage/kv_tier.h"

struct event_base;
struct kv_fabric;
struct kv_agent;

struct kv_fabric_options {
    const struct kv_pages *pages; /* this rank's; they outlive it */
    const uint8_t *model_id;      /* [32] */
    const char *numerics_id;
    struct step_progress *progress; /* of the engine that writes them; NULL: it does not tell */
    /* Numeric address where other units reach this rank's transport; NULL: there is none. */
    const char *host;
    /* This rank's share of the unit's; neither directory nor host_bytes: there is none. */
    struct kv_store_options storage;
    const char *control; /* the wire between the ranks; NULL: there is one rank */
    uint32_t rank;
    uint32_t rank_count;
    double seconds_max;        /* that a transfer may take */
    uint64_t bytes_per_second; /* sent at most; 0: no bound */
    bool by_step;              /* blocks leave when the step is done that makes them */
    void *context;
    /* KV_DONE, FOUND, LOADED and KEPT, of any rank; also from within kv_fabric_take. */
    void (*say)(void *context, const struct record *record);
    /* A rank is not heard any more: what it was told may never be answered, the unit is lost. */
    void (*lost)(void *context, const struct error *error);
};

/* Is there any way for KV blocks at all? */
bool kv_fabric_wanted(const struct kv_fabric_options *options);

enum status kv_fabric_open(const struct kv_fabric_options *options, struct event_base *base,
                           struct kv_fabric **fabric_out, struct error *error) MUST_USE;
void kv_fabric_close(struct kv_fabric *fabric);

/* [rank_count] for the unit's hello; empty without transports. */
const char (*kv_fabric_addresses(const struct kv_fabric *fabric))[KV_ADDRESS_BYTES];

/* From the engine's thread, at rank 0 with a storage; see kv_tier_await. */
bool kv_fabric_await(struct kv_fabric *fabric, uint32_t slot, uint32_t number, uint32_t slices);
/* Says what the storage has told at rank 0. */
void kv_fabric_hear(struct kv_fabric *fabric);
/* Has the KV_LOADED been said of each load that the result's rows waited for? What is missing comes
 * by itself, or its rank is lost. */
bool kv_fabric_heard(const struct kv_fabric *fabric, const struct step_result *result);

/* Rank 0's; NULL: none. */
struct kv_store *kv_fabric_store(const struct kv_fabric *fabric);

/* KV_EXPECT, KV_PUSH, KV_CANCEL, KV_FIND, KV_LOAD, KV_KEEP: to the rank that they name. */
void kv_fabric_take(struct kv_fabric *fabric, const struct record *record);

/* `options`: context, say and lost are not used. */
enum status kv_agent_open(const struct kv_fabric_options *options, struct kv_agent **agent_out,
                          struct error *error) MUST_USE;
void kv_agent_close(struct kv_agent *agent);

/* From the engine's thread, with a storage; see kv_tier_await. */
bool kv_agent_await(struct kv_agent *agent, uint32_t slot, uint32_t number, uint32_t slices);

#endif
