/* SPDX-License-Identifier: Apache-2.0
 * When experts move: from the loads of late, what a new map would bring, layer by layer, and
 * whether that is worth the moves.
 *
 * A step waits for the busiest rank of every layer, so what counts is the sum over the layers of
 * the largest rank load. A new map is carried out if it lowers that by a share that is worth it,
 * twice in a row (loads that only flicker move nothing), and not before the last one had its time;
 * of the layers, only those that gain themselves change. A rank that is masked holds nothing: then
 * the map changes whatever it brings.
 */
#ifndef SERVING_POLICY_REBALANCE_H
#define SERVING_POLICY_REBALANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REBALANCE_EMPTY UINT32_MAX /* a slot without an expert */

struct rebalance_shape {
    uint32_t experts, ranks, slots_per_rank;
};

/* Largest rank loads of a layer, its mean being `mean`; in the loads' unit. */
struct rebalance_gain {
    double mean, before, after;
    uint32_t moves; /* slots that take another expert */
    bool forced;    /* the old map uses a masked rank, or leaves another one's slots empty */
};

size_t rebalance_bytes(const struct rebalance_shape *shape);

/* True if the ranks that are not masked have a slot for every expert. */
bool rebalance_fits(const struct rebalance_shape *shape, const bool *masked);
/* How many redundant experts would be needed (as --redundant-experts counts) for that. */
uint32_t rebalance_redundancy(const struct rebalance_shape *shape, uint32_t masked_count);

/* The best map of a layer that moves few experts: loads[experts], masked[ranks], from and to_out
 * [ranks * slots_per_rank] with a rank's slots behind each other. Every expert has a slot in
 * `from`, and it fits. `memory`: rebalance_bytes, aligned to 8. */
void rebalance_layer(const struct rebalance_shape *shape, const uint64_t *loads, const bool *masked,
                     const uint32_t *from, void *memory, uint32_t *to_out,
                     struct rebalance_gain *gain_out);

struct rebalance_rule {
    double gain;          /* least share of the sum of largest loads that has to be won */
    double layer_gain;    /* least share of a layer's largest load to be won for it to change */
    uint64_t choices_min; /* of the layer with most, since the last new map */
    int64_t rest_ns;      /* between two new maps */
};

enum rebalance_verdict {
    REBALANCE_RESTS, /* the last one was not long ago */
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
enum rebalance_verdict rebalance_judge(struct rebalance *rebalance,
                                       const struct rebalance_rule *rule,
                                       const struct rebalance_gain *gains, uint32_t layers,
                                       uint64_t choices, int64_t now_ns);
/* Whether a layer takes part. */
bool rebalance_changes(const struct rebalance_rule *rule, const struct rebalance_gain *gain);
/* The new map is adopted. */
void rebalance_done(struct rebalance *rebalance, int64_t now_ns);

#endif
