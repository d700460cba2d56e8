/* SPDX-License-Identifier: Apache-2.0
 * How long a step of DeepSeek-V3/R1 takes, rank by rank, for worlds in which nothing is computed:
 * on H800 nodes, by a model made of what is published, or on a machine whose stage times were
 * measured (simulate/hardware/stage_table.h).
 *
 * Stage times per layer follow DeepSeek's profile-data traces (decode EP128, train EP64), the
 * throughputs of DeepGEMM, FlashMLA and DeepEP as their README files give them, and the overlap of
 * two micro-batches as the inference system overview draws it. Against the published figures it is
 * off by +0.2 % (decode trace, per layer), -1.0 % (prefill profile, tokens/s) and -2.2 % (online
 * decode, tokens/s a node); four rates in it were fitted to those traces. Ranks of a unit step
 * together: what a rank does alone (attention, shared expert) costs the maximum over the ranks, and
 * routed experts are taken as balanced.
 *
 * Of a table, a layer's parts take the place of those stage times: 61 layers like it, and nothing
 * else (no head, no sampling, no launches). What travels between ranks takes what it takes on H800
 * nodes: a table has no network.
 */
#ifndef SIMULATE_HARDWARE_H
#define SIMULATE_HARDWARE_H

#include "simulate/hardware/stage_table.h"

struct hardware_prefill_rank {
    uint32_t tokens;   /* computed in this step, in two micro-batches */
    uint64_t attended; /* positions that they attend to, summed */
    uint64_t cached;   /* positions before them that are read back and expanded */
};

/* `table`: NULL for H800 nodes; so below. */
double hardware_prefill_ns(const struct stage_table *table,
                           const struct hardware_prefill_rank *ranks, uint32_t rank_count);

struct hardware_decode_rank {
    uint32_t requests;
    uint64_t context; /* KV tokens of all of them */
};

double hardware_decode_ns(const struct stage_table *table, const struct hardware_decode_rank *ranks,
                          uint32_t rank_count);

/* What makes a rank's step longer, for the balancers' costs. */
struct hardware_costs {
    double token_ns, attended_ns, read_ns; /* prefill: struct prefill_costs */
    double request_ns; /* of a decode request where requests decide the step (exchange) */
    double context_ns; /* of a KV token where contexts do (core attention) */
};

struct hardware_costs hardware_costs_of_rank(const struct stage_table *table);

#endif
