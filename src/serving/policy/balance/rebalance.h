/* SPDX-License-Identifier: Apache-2.0
 * Decides when experts move: computes from recent loads the gain of a new map, layer by layer, and
 * whether it is worth the moves.
 *
 * A step waits for the busiest rank of every layer and, if there are nodes, for the rows between
 * them. Moving experts uses the links once, for all tokens that the new map serves. All three have
 * a price in nanoseconds, measured where the unit runs, and the sum over the layers is compared. A
 * unit that computes prompts has three ways to place a layer: groups of experts kept whole on
 * nodes, as far as that costs no balance, or not at all. Each layer takes the cheapest. A unit that
 * only makes answers places them with all ranks alike, as in DeepSeek's policy.
 *
 * A new map is carried out if it lowers the sum by a sufficient share, twice in a row (so that
 * flickering loads move nothing), and not before the last one had its time. Only layers with a gain
 * of their own change. A masked rank holds nothing: then the map changes whatever the gain.
 */
#ifndef SERVING_POLICY_BALANCE_REBALANCE_H
#define SERVING_POLICY_BALANCE_REBALANCE_H

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
    REBALANCE_GROUPS, /* every group whole on a node */
    REBALANCE_NEAR,   /* groups on nodes as far as that costs no balance */
    REBALANCE_GLOBAL, /* all ranks alike */
    REBALANCE_WAY_COUNT
};
/* "groups", "near", "global" */
const char *rebalance_way_name(enum rebalance_way way);

struct rebalance_prices {
    double pair_ns;     /* time of a rank's experts for one token of one expert; 0: unknown */
    double copy_ns;     /* time on a rank's link for one token's rows to another node and back */
    double near_ns;     /* time on a rank's link for an expert from a rank of its node */
    double far_ns;      /* time for one from another node */
    double tokens;      /* tokens of each rank that a new map is expected to serve: as many as the
                         * last one so far; 0: unknown, and moves cost nothing */
    bool passes;        /* rows are sent once to each node and forwarded there; else to each rank */
    bool makes_answers; /* and no prompts: all ranks alike */
};

/* The cost of a layer in nanoseconds per token of every rank. If prices are unknown, `experts` is
 * the largest load over the mean one, and the others are 0. */
struct rebalance_cost {
    double experts; /* of the busiest rank */
    double nodes;   /* rows to other nodes and back */
    double moves;   /* experts that change their rank, per future token */
};
double rebalance_cost_sum(const struct rebalance_cost *cost);

/* The gain of a layer. Loads are the largest ranks'; their mean is `mean`, in the loads' unit. */
struct rebalance_gain {
    double mean, before, after;
    double copies_before, copies_after; /* rows of a token that leave its node; 0: one node */
    struct rebalance_cost cost_before, cost_after;
    struct rebalance_cost cost_of[REBALANCE_WAY_COUNT]; /* zeros: the layer does not have that
                                                         * way */
    enum rebalance_way way;                             /* the new map's */
    uint32_t moves;                                     /* slots that get another expert */
    bool forced; /* the old map uses a masked rank, or leaves another one's slots empty */
};

size_t rebalance_bytes(const struct rebalance_shape *shape);

/* True if the ranks that are not masked have a slot for every expert. */
bool rebalance_fits(const struct rebalance_shape *shape, const bool *masked);
/* The number of redundant experts (as in --redundant-experts) needed for that. */
uint32_t rebalance_redundancy(const struct rebalance_shape *shape, uint32_t masked_count);

/* The cheapest map of a layer that moves few experts. loads[experts], masked[ranks], from and
 * to_out [ranks * slots_per_rank] with a rank's slots contiguous. Every expert has a slot in
 * `from`, and rebalance_fits is true. `memory`: rebalance_bytes, aligned to 8. */
void rebalance_layer(const struct rebalance_shape *shape, const struct rebalance_prices *prices,
                     const uint64_t *loads, const bool *masked, const uint32_t *from, void *memory,
                     uint32_t *to_out, struct rebalance_gain *gain_out);

/* Nodes that a token is sent to under a map, including its own, if rows are sent once to each node;
 * 0: groups do not divide over nodes. Slots may be empty. */
double rebalance_copies(const struct rebalance_shape *shape, const uint64_t *loads,
                        const uint32_t *slots);

struct rebalance_rule {
    double gain;          /* least gain, as a share of the sum of costs */
    double layer_gain;    /* least gain for a layer to change, as a share of its cost */
    uint64_t choices_min; /* of the layer with most, since the last new map */
    int64_t rest_ns;      /* between two new maps */
};

enum rebalance_verdict {
    REBALANCE_RESTS, /* the last one is too recent */
    REBALANCE_KNOWS_LITTLE,
    REBALANCE_NOT_WORTH_IT,
    REBALANCE_LOOKS_AGAIN, /* worth it for the first time */
    REBALANCE_GOES
};

struct rebalance { /* zeros at first */
    int64_t moved_ns;
    bool has_moved, was_worth_it;
};

/* gains[layers]; `choices` of the layer with most, since the last new map. */
enum rebalance_verdict rebalance_evaluate(struct rebalance *rebalance,
                                          const struct rebalance_rule *rule,
                                          const struct rebalance_gain *gains, uint32_t layers,
                                          uint64_t choices, int64_t now_ns);
/* Whether a layer takes part. */
bool rebalance_changes(const struct rebalance_rule *rule, const struct rebalance_gain *gain);
/* The new map is adopted. */
void rebalance_done(struct rebalance *rebalance, int64_t now_ns);

#endif
