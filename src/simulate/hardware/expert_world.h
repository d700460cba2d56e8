/* SPDX-License-Identifier: Apache-2.0
 * Where a unit's experts lie, how often each is chosen, and what it costs to move them.
 *
 * Loads are drawn: in each layer, expert e is chosen in proportion to exp(sigma g_e), g_e normal.
 * Every hour the share `drift` of a g's variance is new: g' = sqrt(1 - drift) g + sqrt(drift) n.
 * With balancing, the product's own rule looks at the loads (serving/policy/rebalance), with the
 * times and thresholds that host/engine/rebalancer has by default; what it sees has the noise of
 * as many choices as the rebalancer remembers. A new map takes effect when its last expert has
 * come; until then the links have less for others.
 *
 * A step has a finite number of tokens: a rank whose slots have the shares q_i of a layer's load,
 * each of an expert with k_i replicas that take turns, gets N sum q_i of N pairs on average, with
 * about the variance N sum q_i / k_i. So many are drawn from a normal distribution, for each layer of
 * each step. Without skew all experts are chosen equally often, and a step has no chance in it.
 *
 * Where groups of experts divide over the nodes, the nodes that a token goes to follow from where the
 * experts lie (serving/policy/balance_traffic).
 */
#ifndef SIMULATE_HARDWARE_EXPERT_WORLD_H
#define SIMULATE_HARDWARE_EXPERT_WORLD_H

#include "base/arena.h"
#include "serving/policy/rebalance.h"
#include "simulate/hardware/stage_rates.h"

struct expert_world_options {
    const struct model_figures *model;
    uint32_t ranks, redundant_experts;
    bool balances;
    double skew, drift;
    uint64_t seed;
    struct move_rates moves;
    uint32_t ranks_per_node;        /* 0: one node */
    struct rebalance_prices prices; /* but for `tokens`, which the world counts */
    const double *logs;             /* [layers][experts] the g_e at first; NULL: they are drawn */
};

#define EXPERT_NOISE 4096 /* normal variables that are drawn once; a draw begins at any of them */

struct expert_world {
    struct expert_world_options options;
    uint32_t layers, experts, slots_per_rank; /* layers with experts */
    double *logs;                             /* [layers][experts] */
    double *chosen;                           /* [layers][experts] shares; sum 1 */
    double *shares;                           /* [layers][ranks] of a layer's load; sum 1 */
    double *copies;                           /* [layers] nodes that a token goes to, its own too;
                                               * 0: groups do not divide over nodes */
    double *deviations; /* [layers][ranks] of what a rank gets of N pairs, over the root of N */
    double *noise;      /* [EXPERT_NOISE] */
    uint32_t *slots, *target;     /* [layers][ranks * slots_per_rank] */
    uint64_t *loads;              /* [experts] as the balancer sees them */
    bool *masked, *changes;       /* [ranks] none is; [layers] */
    struct rebalance_gain *gains; /* [layers] */
    struct rebalance *rebalance;
    struct expert_move *moves; /* [slots] */
    uint32_t *gives;           /* [ranks] */
    void *place_memory;
    int64_t hour;                             /* since the first step */
    int64_t first_ns, next_look_ns, moved_ns; /* moved_ns: the wave under way ends; 0: none is */
    bool began;
    uint32_t looks;                            /* that are left until the loads drift again */
    uint64_t choices, counted, counted_before; /* since the last map; in all; at the last look */
    uint64_t move_count, new_moves, draws, pair_draws;
    uint64_t far_count, new_far; /* of the moves: from another node */
    uint32_t waves;
    double heat; /* 1: none are hot */
    uint32_t heats;
};

size_t expert_world_bytes(const struct expert_world_options *options);
/* False: the memory does not suffice. */
bool expert_world_open(struct expert_world *world, struct arena *arena,
                       const struct expert_world_options *options);

/* A step begins, of so many tokens on all ranks. Returns what it waits for new maps, in us. */
double expert_world_advance(struct expert_world *world, int64_t now_ns, double tokens);

/* A few experts of each layer, other ones with each call, are chosen `factor` times as often from
 * now on; 1: none. The balancer looks when it would. */
void expert_world_heat(struct expert_world *world, double factor, int64_t now_ns);
bool expert_world_is_moving(const struct expert_world *world);

/* Pairs of a token and an expert that come to each rank in a lane of a step, `mean` on average:
 * pairs_out[ranks]. Each call draws others. */
void expert_world_draw(struct expert_world *world, uint32_t layer, double mean, double *pairs_out);

/* Largest rank's share of a layer's load over the mean, of endless tokens. */
double expert_world_balance(const struct expert_world *world, uint32_t layer);

#endif
