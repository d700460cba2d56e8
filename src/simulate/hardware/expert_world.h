/* SPDX-License-Identifier: Apache-2.0
 * The placement of a unit's experts, the load of each expert, and the cost of moving them.
 *
 * Loads are random: in each layer, expert e is chosen in proportion to exp(sigma g_e), with g_e
 * normal. Every hour the share `drift` of g's variance is renewed: g' = sqrt(1 - drift) g +
 * sqrt(drift) n. With balancing, the product's policy (serving/policy/balance/rebalance) reads the
 * loads, with the default intervals and thresholds of host/engine/rebalancer. Its input has the
 * sampling noise of as many choices as the rebalancer remembers. A new placement takes effect when
 * its last expert has arrived. Until then the links have less capacity for other transfers.
 *
 * A step has a finite number of tokens. Let a rank's slots receive the shares q_i of a layer's
 * load, each slot holding an expert with k_i replicas that take turns. Of N pairs of token and
 * expert, the rank then gets N sum q_i on average, with a variance of about N sum q_i / k_i. That
 * number is drawn from a normal distribution for each layer of each step. Without skew all experts
 * are chosen equally often, and steps have no random part.
 *
 * If groups of experts divide evenly over the nodes, the placement of the experts determines the
 * number of nodes that a token is sent to (serving/policy/balance/balance_traffic).
 */
#pragma once

#include "base/arena.h"
#include "serving/policy/balance/rebalance.h"
#include "simulate/hardware/stage_rates.h"

struct expert_world_options {
    const struct model_figures *model;
    uint32_t ranks, redundant_experts;
    bool balances;
    double skew, drift;
    uint64_t seed;
    struct move_rates moves;
    uint32_t ranks_per_node;        /* 0: one node */
    struct rebalance_prices prices; /* except `tokens`, which this module counts */
};

#define EXPERT_NOISE 4096 /* normal variables, drawn once; each draw starts at a random one */

struct expert_world {
    struct expert_world_options options;
    uint32_t layers, experts, slots_per_rank; /* `layers`: those with routed experts */
    double *logs;                             /* [layers][experts] */
    double *chosen;                           /* [layers][experts] shares; sum 1 */
    double *shares;                           /* [layers][ranks] shares of a layer's load; sum 1 */
    double *copies; /* [layers] nodes that a token is sent to, including its
                     * own; 0: groups do not divide over nodes */
    /* [layers][ranks] standard deviation of a rank's share of N pairs, divided by sqrt(N) */
    double *deviations;
    double *noise;                /* [EXPERT_NOISE] */
    uint32_t *slots, *target;     /* [layers][ranks * slots_per_rank] */
    uint64_t *loads;              /* [experts] input of the balancer */
    bool *masked, *changes;       /* [ranks] all false; [layers] */
    struct rebalance_gain *gains; /* [layers] */
    struct rebalance *rebalance;
    struct expert_move *moves; /* [slots] */
    uint32_t *gives;           /* [ranks] */
    void *place_memory;
    int64_t hour;                             /* since the first step */
    int64_t first_ns, next_look_ns, moved_ns; /* moved_ns: end of the move under way; 0: none */
    bool began;
    uint32_t looks; /* balancer checks left until the loads drift again */
    uint64_t choices, counted, counted_before; /* since the last map; in total; at the last check */
    uint64_t move_count, new_moves, draws, pair_draws;
    uint32_t expert_batches;
    double heat; /* factor of hot experts; 1: none are hot */
    uint32_t heats;
};

size_t expert_world_bytes(const struct expert_world_options *options);
/* Returns false if the arena is out of memory. */
bool expert_world_open(struct expert_world *world, struct arena *arena,
                       const struct expert_world_options *options);

/* Begins a step with `tokens` tokens on all ranks together. Returns the time in microseconds that
 * it waits to adopt new placements. */
double expert_world_advance(struct expert_world *world, int64_t now_ns, double tokens);

/* From now on a few experts of each layer, other ones with each call, are chosen `factor` times as
 * often; 1 ends this. The balancer still checks only at its usual times. */
void expert_world_heat(struct expert_world *world, double factor, int64_t now_ns);
bool expert_world_is_moving(const struct expert_world *world);

/* Draws the number of pairs of token and expert that each rank gets in a micro-batch of a step:
 * pairs_out[ranks], `mean` on average. Each call draws new numbers. */
void expert_world_draw(struct expert_world *world, uint32_t layer, double mean, double *pairs_out);

/* The load of the most loaded rank over the mean in a layer, in the limit of many tokens. */
double expert_world_balance(const struct expert_world *world, uint32_t layer);
