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
 * What each part was measured to bring stands at enum balance_part: the loss without it, on the
 * seven kinds of load of docs/performance/balance.md. `fathom bench eplb --parts` measures it again.
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

/* What can be left out to see what it brings. */
enum balance_part {
    /* An item of the busiest rank for a lighter one. At 32 ranks 0.5 to 0.7 % of balance on three
     * kinds, at 72 ranks 1.4 to 3.9 % on all. */
    BALANCE_EXCHANGE = 1 << 0,
    /* No rank holds an expert twice, as far as possible. At 32 ranks the busiest rank of a batch
     * has 0.7 to 2.8 % more to do on four kinds. */
    BALANCE_SPREAD = 1 << 1,
    /* An exchange within a node first. At 32 ranks a token touches 0.8 to 1.9 % more nodes. */
    BALANCE_NEAR = 1 << 2,
    /* With all ranks alike. Nothing at 32 and at 144 ranks; at 72 ranks on 4 nodes 1.1 to 4.4 % of
     * balance on three kinds. */
    BALANCE_SECOND_START = 1 << 3,
    /* Two slots a rank: the search over counts (balance_pairs.h). At 144 ranks 0.7 to 3.3 % of
     * balance on five kinds. */
    BALANCE_PAIRS = 1 << 4,
    /* Of balance_keep: the old placement repaired. At 32 ranks 8 to 11 times the moves. */
    BALANCE_REPAIR = 1 << 5,
    /* Of balance_keep: ranks named after what they hold already. At 144 ranks 2 to 18 times the
     * moves. */
    BALANCE_NAMES = 1 << 6,
    /* Of balance_keep, two slots a rank: pairs stay together. At 144 ranks 1.5 to 13 times the
     * moves. */
    BALANCE_KEEP_PAIRS = 1 << 7
};

struct balance_options {
    enum balance_locality locality;
    uint32_t without; /* bits of enum balance_part; else 0 */
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
