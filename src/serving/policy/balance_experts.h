/* SPDX-License-Identifier: Apache-2.0
 * The expert-parallel load balancer: which slot holds which expert, so that no rank waits long for
 * the busiest one. Every expert has a slot; slots left over hold replicas, which share their
 * expert's load equally. One layer at a time; layers do not know of each other.
 *
 * The search starts at the placement of DeepSeek's balancer (groups packed to nodes, replicas
 * within nodes, heaviest first; or all at once where groups do not divide over nodes) and only ever
 * lowers the largest rank load from there, so it is never worse. Groups stay on their nodes as far
 * as that costs no balance: an exchange within a node is preferred, one across nodes is made when
 * that alone helps. BALANCE_STRICT never makes one. Where the groups' nodes keep the search far from
 * the bound, it starts once more with all ranks alike, and the better placement counts.
 *
 * docs/performance/balance.md has what each part was measured to bring, on seven kinds of load.
 *
 * The proven bound: with a largest rank load of c, an expert needs at least ceil(load / c)
 * replicas. So c is at least the smallest cap for which those fit into the slots, and at least the
 * mean.
 *
 * Whole numbers, fixed order: the same loads give the same placement everywhere. Memory is the
 * caller's.
 */
#ifndef SERVING_POLICY_BALANCE_EXPERTS_H
#define SERVING_POLICY_BALANCE_EXPERTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define BALANCE_SLOTS_MAX 8192

struct balance_shape {
    uint32_t experts, groups; /* routed experts; consecutive ones form a group */
    uint32_t slots;           /* on all ranks together; as many on each */
    uint32_t ranks, nodes;    /* consecutive ranks form a node; neither nodes nor groups matter
                               * where groups do not divide over nodes */
};

enum balance_locality {
    BALANCE_FREE,  /* the best balance, whatever the node */
    BALANCE_STRICT /* a group's replicas all live on one node */
};

struct balance_options {
    enum balance_locality locality;
};

struct balance_outcome {
    double balance; /* mean rank load / largest; 1 if all loads are 0 */
    double bound;   /* no placement is better balanced; 1 if all loads are 0 */
};

/* INVALID: a line that says which of the numbers do not fit together. */
enum status balance_experts_check(const struct balance_shape *shape, struct error *error) MUST_USE;

/* Whether groups can stay on nodes: otherwise BALANCE_STRICT means the same as BALANCE_FREE. */
bool balance_experts_divides(const struct balance_shape *shape);

/* Bytes of memory that one call needs, aligned to 8. The shape has been checked. */
size_t balance_experts_bytes(const struct balance_shape *shape);

/* loads[experts] in any unit, their sum below 2^64; slot_to_expert_out[slots]. */
void balance_experts(const struct balance_shape *shape, const struct balance_options *options,
                     const uint64_t *loads, void *memory, uint16_t *slot_to_expert_out,
                     struct balance_outcome *outcome_out);

/* The placement of DeepSeek's balancer, for comparison. */
void balance_experts_greedy(const struct balance_shape *shape, const uint64_t *loads, void *memory,
                            uint16_t *slot_to_expert_out, struct balance_outcome *outcome_out);

/* Balance and bound of a given placement. Every expert has a slot. */
void balance_experts_judge(const struct balance_shape *shape, const uint64_t *loads, void *memory,
                           const uint16_t *slot_to_expert, struct balance_outcome *outcome_out);

#endif
