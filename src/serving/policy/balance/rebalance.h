/* SPDX-License-Identifier: Apache-2.0
 * Decides when experts move. For each layer, it computes the gain of a new expert map from recent
 * loads, and whether the gain is worth the moves.
 *
 * In every layer, a step waits for the busiest rank and, with several nodes, for the rows sent
 * between them. A move of an expert uses the links once, for all tokens that the new map will
 * serve. All three have a price in nanoseconds, measured on the machines of the unit. The sums over
 * the layers are compared. A unit that computes prompts has three possible placements for a layer:
 * groups of experts stay on one node always, as far as that costs no balance, or never. Each layer
 * takes the cheapest. A decode unit treats all ranks alike, as in DeepSeek's policy.
 *
 * A new map is adopted if it lowers the sum by a sufficient share twice in a row, so that short
 * fluctuations move nothing, and if the last change is old enough. Only layers with a gain change.
 * A masked rank must not hold experts, so the map then changes regardless of the gain.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "serving/policy/balance/balance_traffic.h"

#define REBALANCE_EMPTY UINT32_MAX /* a slot without an expert */

struct rebalance_shape {
    uint32_t experts, ranks, slots_per_rank;
    uint32_t node_ranks;          /* consecutive ranks of a node; 0 or `ranks`: one node */
    uint32_t groups;              /* of experts, the same number in each; 0: none */
    struct balance_choice choice; /* of a token; only if there are groups */
};

enum rebalance_way {
    REBALANCE_GROUPS, /* every group is on one node */
    REBALANCE_NEAR,   /* groups are on one node as far as that costs no balance */
    REBALANCE_GLOBAL, /* all ranks are equal */
    REBALANCE_WAY_COUNT
};

struct rebalance_prices {
    double pair_ns; /* time of a rank for one token of one routed expert; 0: unknown */
    double copy_ns; /* time on a rank's link for one token's rows to another node and back */
    double near_ns; /* time on a rank's link for an expert from a rank of its node */
    double far_ns;  /* time on a rank's link for an expert from another node */
    /* tokens per rank that a new map is expected to serve, which is as many as the last one has so
     * far; 0: unknown, and moves are free */
    double tokens;
    /* a row is sent once to each node and forwarded there; otherwise once to each rank */
    bool passes;
    bool makes_answers; /* decode unit: all ranks are alike */
};

/* The cost of a layer in nanoseconds per token of every rank. If prices are unknown, `experts` is
 * the largest load divided by the mean, and the others are 0. */
struct rebalance_cost {
    double experts; /* routed experts of the busiest rank */
    double nodes;   /* rows to other nodes and back */
    double moves;   /* experts that move to another rank, per future token */
};
double rebalance_cost_sum(const struct rebalance_cost *cost);

/* The gain of a layer. `before` and `after` are the loads of the busiest rank, `mean` is the mean
 * load of a rank, all in the unit of the loads. */
struct rebalance_gain {
    double mean, before, after;
    /* number of nodes, other than its own, that the row of a token is sent to; 0: one node */
    double copies_before, copies_after;
    struct rebalance_cost cost_before, cost_after;
    /* zeros: this placement is not possible for the layer */
    struct rebalance_cost cost_of[REBALANCE_WAY_COUNT];
    enum rebalance_way way; /* placement of the new map */
    uint32_t moves;         /* slots that get another expert */
    bool forced; /* the old map uses a masked rank, or leaves slots of another rank empty */
};

size_t rebalance_bytes(const struct rebalance_shape *shape);

/* True if the unmasked ranks have a slot for every expert. */
bool rebalance_fits(const struct rebalance_shape *shape, const bool *masked);
/* The number of redundant experts (as in --redundant-experts) that rebalance_fits needs. */
uint32_t rebalance_redundancy(const struct rebalance_shape *shape, uint32_t masked_count);

/* Finds the cheapest map of a layer that moves few experts. loads[experts], masked[ranks], from and
 * to_out [ranks * slots_per_rank] with a rank's slots contiguous. Every expert must have a slot in
 * `from`, and rebalance_fits must be true. `memory`: rebalance_bytes, aligned to 8. */
void rebalance_layer(const struct rebalance_shape *shape, const struct rebalance_prices *prices,
                     const uint64_t *loads, const bool *masked, const uint32_t *from, void *memory,
                     uint32_t *to_out, struct rebalance_gain *gain_out);

/* The number of nodes that a token is sent to under a map, including its own, if rows are sent once
 * per node. 0 if groups do not divide over nodes. Slots may be empty. */
double rebalance_copies(const struct rebalance_shape *shape, const uint64_t *loads,
                        const uint32_t *slots);

struct rebalance_rule {
    double gain;       /* minimum gain, as a share of the sum of costs */
    double layer_gain; /* minimum gain of a layer, as a share of its cost */
    /* minimum of expert choices, in the layer with the most, since the last new map */
    uint64_t choices_min;
    int64_t rest_ns; /* minimum time between two new maps */
};

enum rebalance_verdict {
    REBALANCE_RESTS, /* the last new map is too recent */
    REBALANCE_KNOWS_LITTLE,
    REBALANCE_NOT_WORTH_IT,
    REBALANCE_LOOKS_AGAIN, /* the gain is sufficient for the first time */
    REBALANCE_GOES
};

struct rebalance { /* zeros at first */
    int64_t moved_ns;
    bool has_moved, was_worth_it;
};

/* gains[layers]; `choices` is the count of the layer with the most since the last new map. */
enum rebalance_verdict rebalance_evaluate(struct rebalance *rebalance,
                                          const struct rebalance_rule *rule,
                                          const struct rebalance_gain *gains, uint32_t layers,
                                          uint64_t choices, int64_t now_ns);
/* True if the layer changes. */
bool rebalance_changes(const struct rebalance_rule *rule, const struct rebalance_gain *gain);
/* Records that a new map was adopted. */
void rebalance_done(struct rebalance *rebalance, int64_t now_ns);
