/* SPDX-License-Identifier: Apache-2.0
 * The memory that a model needs, as one sum for every command that asks: `inspect model`, `plan`,
 * the check of a unit's hosts, and the check before weights are read. The callers know the sizes:
 * from a checkpoint, or from a simulated model's figures. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The bytes of a model's weights as they are in memory. */
struct memory_weights {
    double common;                /* all but the routed experts */
    double expert;                /* one routed expert of one layer, with its scales */
    uint32_t experts, moe_layers; /* routed experts in each of these layers; 0: none */
};

/* The need of a unit. */
struct memory_need {
    struct memory_weights model;
    uint32_t ranks, redundant; /* of the unit; expert slots beyond one per expert */
    uint32_t host_ranks;       /* ranks on this host */
    bool shares;               /* ranks of one host have one copy of the common weights */
    double kv;                 /* the KV cache of all ranks together */
    double step;               /* the values of a step, on each rank */
};

/* The need of the ranks of one host, in bytes. */
struct memory_sum {
    double weights, kv, step;
};

/* A rank's slots of experts in each MoE layer, the same number on all ranks. */
uint32_t memory_need_slots(const struct memory_weights *model, uint32_t ranks, uint32_t redundant);

/* The weights of one rank with so many slots in each MoE layer. */
double memory_need_rank(const struct memory_weights *model, uint32_t slots);

struct memory_sum memory_need_host(const struct memory_need *need);
double memory_need_total(const struct memory_sum *sum);

/* The smallest number of hosts, each with `host_ranks` ranks and so much memory, that hold the
 * unit; 0: no number within LIMIT_RANKS does. */
uint32_t memory_need_hosts(const struct memory_need *need, double host_bytes);
