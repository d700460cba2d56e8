/* SPDX-License-Identifier: Apache-2.0
 * The expert-parallel load balancer. It assigns the routed experts of a layer to slots on ranks, so
 * that the busiest rank delays the others as little as possible. Every expert has a slot. The
 * remaining slots hold replicas, which share the load of their expert equally. Each layer is
 * balanced independently.
 *
 * The search starts from the placement of DeepSeek's balancer, which packs groups to nodes and then
 * replicas within nodes, heaviest first (or all at once, if the groups do not divide over nodes).
 * The search only ever lowers the largest rank load, so the result is never worse. Groups stay on
 * their nodes as long as that costs no balance: exchanges within a node are preferred, and
 * exchanges across nodes are made only if nothing else helps. BALANCE_STRICT never makes those. If
 * the groups' nodes keep the search far from the bound, it runs once more with all ranks alike, and
 * the better placement is used.
 *
 * docs/performance/balance.md has the measured gain of each part, for seven kinds of load.
 *
 * A lower bound is known: if the largest rank load is c, each expert needs at least ceil(load / c)
 * replicas. Hence c is at least the smallest cap for which these replicas fit into the slots, and
 * at least the mean.
 *
 * All arithmetic is on integers in a fixed order, so the same loads give the same placement
 * everywhere. The caller provides the memory.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define BALANCE_SLOTS_MAX 8192

struct balance_shape {
    uint32_t experts, groups; /* routed experts; a group is a range of consecutive experts */
    uint32_t slots;           /* on all ranks together, the same number on each */
    /* a node is a range of consecutive ranks; nodes and groups are ignored if groups do not divide
     * over nodes */
    uint32_t ranks, nodes;
};

enum balance_locality {
    BALANCE_FREE,  /* the best balance, regardless of nodes */
    BALANCE_STRICT /* all replicas of a group are on one node */
};

struct balance_options {
    enum balance_locality locality;
};

struct balance_outcome {
    double balance; /* mean rank load / largest; 1 if all loads are 0 */
    double bound;   /* upper bound of any placement's balance; 1 if all loads are 0 */
};

/* Returns STATUS_INVALID if the shape is inconsistent. The error names the numbers. */
enum status balance_experts_check(const struct balance_shape *shape, struct error *error) MUST_USE;

/* True if groups can stay on nodes. Otherwise BALANCE_STRICT is the same as BALANCE_FREE. */
bool balance_experts_divides(const struct balance_shape *shape);

/* Bytes of memory for one call, aligned to 8. The shape has been checked. */
size_t balance_experts_bytes(const struct balance_shape *shape);

/* loads[experts] in any unit, with a sum below 2^64; slot_to_expert_out[slots]. */
void balance_experts(const struct balance_shape *shape, const struct balance_options *options,
                     const uint64_t *loads, void *memory, uint16_t *slot_to_expert_out,
                     struct balance_outcome *outcome_out);

/* The placement of DeepSeek's balancer, for comparison. */
void balance_experts_greedy(const struct balance_shape *shape, const uint64_t *loads, void *memory,
                            uint16_t *slot_to_expert_out, struct balance_outcome *outcome_out);

/* Balance and bound of a given placement, in which every expert has a slot. */
void balance_experts_evaluate(const struct balance_shape *shape, const uint64_t *loads,
                              void *memory, const uint16_t *slot_to_expert,
                              struct balance_outcome *outcome_out);
