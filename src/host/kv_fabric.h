/* SPDX-License-Identifier: Apache-2.0
 * The KV blocks' ways in and out of all ranks of a unit. Every rank has a transport and a carrier
 * on its own pages: rank 0 in its event loop, another rank in a thread of its own (kv_agent), which
 * hears what rank 0's unit says, and answers, over a wire to it.
 *
 *   rank 0   kv_fabric_open (waits for the others), kv_fabric_addresses, kv_fabric_take
 *   others   kv_agent_open, kv_agent_close around the life of their model
 */
#ifndef HOST_KV_FABRIC_H
#define HOST_KV_FABRIC_H

#include "contract/record.h"
#include "host/engine_cpu.h"

struct event_base;
struct kv_fabric;
struct kv_agent;

struct kv_fabric_options {
    const struct engine_cpu *engine; /* this rank's; outlives it */
    const char *host;    /* numeric address where other units reach this rank's transport */
    const char *control; /* the wire between the ranks; NULL: there is one rank */
    uint32_t rank;
    uint32_t rank_count;
    double seconds_max;        /* that a transfer may take */
    uint64_t bytes_per_second; /* sent at most; 0: no bound */
    void *context;
    void (*say)(void *context, const struct record *record); /* KV_DONE, of any rank */
};

enum status kv_fabric_open(const struct kv_fabric_options *options, struct event_base *base,
                           struct kv_fabric **fabric_out, struct error *error) MUST_USE;
void kv_fabric_close(struct kv_fabric *fabric);

/* [rank_count] for the unit's hello. */
const char (*kv_fabric_addresses(const struct kv_fabric *fabric))[KV_ADDRESS_BYTES];

/* KV_EXPECT, KV_PUSH, KV_CANCEL: to the rank that they name. */
void kv_fabric_take(struct kv_fabric *fabric, const struct record *record);

/* `options`: context and say are not used. */
enum status kv_agent_open(const struct kv_fabric_options *options, struct kv_agent **agent_out,
                          struct error *error) MUST_USE;
void kv_agent_close(struct kv_agent *agent);

#endif
