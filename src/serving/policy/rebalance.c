/* SPDX-License-Identifier: Apache-2.0
 * The balancer knows neither masked ranks nor empty slots: it sees the ranks that remain, as many
 * as there are, and an old map of theirs that was made whole: an expert that would be lost takes a
 * slot of the one with the most replicas, and an empty slot the expert with the largest share.
 */
#include "serving/policy/rebalance.h"

#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "serving/policy/balance_keep.h"

#define TOLERANCE 0.02 /* of the best map's largest load, for fewer moves */

struct rebalance_layer {
    const struct rebalance_shape *shape;
    const uint64_t *loads;
    struct balance_shape left; /* what the balancer sees */
    uint16_t *old, *best;      /* [left.slots] */
    uint16_t *replicas;        /* [experts] in `old` */
    void *memory;
};

static struct balance_shape shape_of(const struct rebalance_shape *shape, uint32_t ranks) {
    return (struct balance_shape){.experts = shape->experts,
                                  .groups = 1,
                                  .slots = ranks * shape->slots_per_rank,
                                  .ranks = ranks,
                                  .nodes = 1};
}

size_t rebalance_bytes(const struct rebalance_shape *shape) {
    struct balance_shape all = shape_of(shape, shape->ranks);
    size_t keep = balance_keep_bytes(&all), judge = balance_experts_bytes(&all);
    return (keep > judge ? keep : judge) + 2 * round_up_8(all.slots * sizeof(uint16_t)) +
           round_up_8(shape->experts * sizeof(uint16_t));
}

static uint32_t count_left(const struct rebalance_shape *shape, const bool *masked) {
    uint32_t left = 0;
    for (uint32_t rank = 0; rank < shape->ranks; rank++)
        left += !masked[rank];
    return left;
}

bool rebalance_fits(const struct rebalance_shape *shape, const bool *masked) {
    return (uint64_t)count_left(shape, masked) * shape->slots_per_rank >= shape->experts;
}

uint32_t rebalance_redundancy(const struct rebalance_shape *shape, uint32_t masked_count) {
    check(masked_count < shape->ranks);
    uint32_t left = shape->ranks - masked_count;
    uint32_t each = (shape->experts + left - 1) / left; /* slots of a rank */
    uint32_t least = (each - 1) * shape->ranks + 1;     /* so many slots are made so many each */
    return least > shape->experts ? least - shape->experts : 0;
}

static void open_layer(struct rebalance_layer *layer, const struct rebalance_shape *shape,
                       const uint64_t *loads, const bool *masked, void *memory) {
    char *at = memory;
    *layer = (struct rebalance_layer){.shape = shape, .loads = loads};
    layer->left = shape_of(shape, count_left(shape, masked));
    layer->old = (uint16_t *)(void *)at;
    at += round_up_8(layer->left.slots * sizeof *layer->old);
    layer->best = (uint16_t *)(void *)at;
    at += round_up_8(layer->left.slots * sizeof *layer->best);
    layer->replicas = (uint16_t *)(void *)at;
    layer->memory = at + round_up_8(shape->experts * sizeof *layer->replicas);
}

/* The slot whose expert can best spare it. */
static uint32_t spare_slot(const struct rebalance_layer *layer) {
    uint32_t best = 0;
    for (uint32_t slot = 1; slot < layer->left.slots; slot++)
        if (layer->replicas[layer->old[slot]] > layer->replicas[layer->old[best]]) best = slot;
    check(layer->replicas[layer->old[best]] > 1);
    return best;
}

static uint32_t largest_share(const struct rebalance_layer *layer) {
    uint32_t best = 0;
    for (uint32_t e = 1; e < layer->shape->experts; e++)
        if (layer->loads[e] / layer->replicas[e] > layer->loads[best] / layer->replicas[best])
            best = e;
    return best;
}

static void put(struct rebalance_layer *layer, uint32_t slot, uint32_t expert) {
    layer->old[slot] = (uint16_t)expert;
    layer->replicas[expert]++;
}

/* Fills `old` from the slots of the ranks that are left. */
static void make_whole(struct rebalance_layer *layer, const bool *masked, const uint32_t *from) {
    uint32_t room = layer->shape->slots_per_rank, at = 0, expert = 0;
    memset(layer->replicas, 0, layer->shape->experts * sizeof *layer->replicas);
    for (uint32_t rank = 0; rank < layer->shape->ranks; rank++)
        for (uint32_t i = 0; !masked[rank] && i < room; i++, at++) {
            layer->old[at] = UINT16_MAX;
            if (from[rank * room + i] != REBALANCE_EMPTY) put(layer, at, from[rank * room + i]);
        }
    for (uint32_t slot = 0; slot < layer->left.slots; slot++) { /* empty ones to those without */
        if (layer->old[slot] != UINT16_MAX) continue;
        while (expert < layer->shape->experts && layer->replicas[expert])
            expert++;
        if (expert == layer->shape->experts) break;
        put(layer, slot, expert);
    }
    for (uint32_t slot = 0; slot < layer->left.slots; slot++)
        if (layer->old[slot] == UINT16_MAX) put(layer, slot, largest_share(layer));
    for (expert = 0; expert < layer->shape->experts; expert++) {
        if (layer->replicas[expert]) continue;
        uint32_t slot = spare_slot(layer);
        layer->replicas[layer->old[slot]]--;
        put(layer, slot, expert);
    }
}

/* The largest rank load of the map as it is, masked ranks and empty slots included. */
static double largest_load(const struct rebalance_layer *layer, const uint32_t *from) {
    const struct rebalance_shape *shape = layer->shape;
    uint32_t slots = shape->ranks * shape->slots_per_rank;
    double largest = 0;
    memset(layer->replicas, 0, shape->experts * sizeof *layer->replicas);
    for (uint32_t slot = 0; slot < slots; slot++)
        if (from[slot] != REBALANCE_EMPTY) layer->replicas[from[slot]]++;
    for (uint32_t rank = 0; rank < shape->ranks; rank++) {
        double load = 0;
        for (uint32_t i = 0; i < shape->slots_per_rank; i++) {
            uint32_t expert = from[rank * shape->slots_per_rank + i];
            if (expert != REBALANCE_EMPTY)
                load += (double)layer->loads[expert] / layer->replicas[expert];
        }
        if (load > largest) largest = load;
    }
    return largest;
}

void rebalance_layer(const struct rebalance_shape *shape, const uint64_t *loads, const bool *masked,
                     const uint32_t *from, void *memory, uint32_t *to_out,
                     struct rebalance_gain *gain_out) {
    struct balance_options options = {.locality = BALANCE_FREE};
    struct balance_outcome outcome;
    struct rebalance_layer layer;
    uint32_t room = shape->slots_per_rank, at = 0, moves;
    double sum = 0;
    check(rebalance_fits(shape, masked));
    open_layer(&layer, shape, loads, masked, memory);
    struct rebalance_gain gain = {.before = largest_load(&layer, from)};
    make_whole(&layer, masked, from);
    struct balance_keeping keeping = {.old = layer.old, .tolerance = TOLERANCE};
    balance_keep(&layer.left, &options, loads, &keeping, layer.memory, layer.best, &outcome,
                 &moves);
    for (uint32_t rank = 0; rank < shape->ranks; rank++)
        for (uint32_t i = rank * room; i < (rank + 1) * room; i++) {
            to_out[i] = masked[rank] ? REBALANCE_EMPTY : layer.best[at++];
            gain.forced |= masked[rank] == (from[i] != REBALANCE_EMPTY);
            gain.moves += to_out[i] != from[i] && to_out[i] != REBALANCE_EMPTY;
        }
    for (uint32_t e = 0; e < shape->experts; e++)
        sum += (double)loads[e];
    gain.mean = sum / layer.left.ranks;
    gain.after = largest_load(&layer, to_out);
    *gain_out = gain;
}

bool rebalance_changes(const struct rebalance_rule *rule, const struct rebalance_gain *gain) {
    if (gain->forced) return true;
    return gain->moves && gain->before - gain->after > rule->layer_gain * gain->before;
}

enum rebalance_verdict rebalance_judge(struct rebalance *rebalance,
                                       const struct rebalance_rule *rule,
                                       const struct rebalance_gain *gains, uint32_t layers,
                                       uint64_t choices, int64_t now_ns) {
    double before = 0, won = 0;
    bool forced = false, was_worth_it = rebalance->was_worth_it;
    for (uint32_t layer = 0; layer < layers; layer++) {
        before += gains[layer].before;
        if (rebalance_changes(rule, &gains[layer])) won += gains[layer].before - gains[layer].after;
        forced |= gains[layer].forced;
    }
    if (forced) return REBALANCE_GOES;
    if (rebalance->has_moved && now_ns - rebalance->moved_ns < rule->rest_ns)
        return REBALANCE_RESTS;
    if (choices < rule->choices_min) return REBALANCE_KNOWS_LITTLE;
    rebalance->was_worth_it = won > 0 && won >= rule->gain * before;
    if (!rebalance->was_worth_it) return REBALANCE_NOT_WORTH_IT;
    return was_worth_it ? REBALANCE_GOES : REBALANCE_LOOKS_AGAIN;
}

void rebalance_done(struct rebalance *rebalance, int64_t now_ns) {
    *rebalance = (struct rebalance){.moved_ns = now_ns, .has_moved = true};
}
