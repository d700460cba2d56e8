/* SPDX-License-Identifier: Apache-2.0
 * The balancer does not support masked ranks or empty slots. It therefore gets only the unmasked
 * ranks, and a completed old map. An empty slot gets an expert that has no slot, or else the expert
 * with the largest share. An expert that still has no slot takes one of the expert with the most
 * replicas.
 */
#include "serving/policy/balance/rebalance.h"

#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "serving/policy/balance/balance_keep.h"

#define TOLERANCE 0.02 /* accepted excess over the best map's largest load, for fewer moves */

struct rebalance_layer {
    const struct rebalance_shape *shape;
    const struct rebalance_prices *prices;
    const uint64_t *loads;
    struct balance_shape left;    /* the balancer's input */
    uint16_t *old, *best, *tried; /* [left.slots] */
    uint16_t *replicas;           /* [experts] replicas in `old` */
    void *memory;
};

static struct balance_shape rebalance_shape_of(const struct rebalance_shape *shape, uint32_t ranks,
                                               uint32_t nodes) {
    bool whole = shape->groups && shape->experts % shape->groups == 0;
    return (struct balance_shape){.experts = shape->experts,
                                  .groups = whole ? shape->groups : 1,
                                  .slots = ranks * shape->slots_per_rank,
                                  .ranks = ranks,
                                  .nodes = nodes};
}

size_t rebalance_bytes(const struct rebalance_shape *shape) {
    struct balance_shape all = rebalance_shape_of(shape, shape->ranks, shape->ranks);
    size_t keep = balance_keep_bytes(&all), verify = balance_experts_bytes(&all);
    return (keep > verify ? keep : verify) + 3 * round_up_8(all.slots * sizeof(uint16_t)) +
           round_up_8(shape->experts * sizeof(uint16_t));
}

static uint32_t count_left(const struct rebalance_shape *shape, const bool *masked) {
    uint32_t left = 0;
    for (uint32_t rank = 0; rank < shape->ranks; rank++)
        left += !masked[rank];
    return left;
}

/* The number of nodes that the remaining ranks form; 1 if they are not evenly distributed. */
static uint32_t rebalance_count_nodes(const struct rebalance_shape *shape, const bool *masked) {
    uint32_t each = shape->node_ranks ? shape->node_ranks : shape->ranks, nodes = 0, of_first = 0;
    for (uint32_t first = 0; first < shape->ranks; first += each) {
        uint32_t left = 0;
        for (uint32_t rank = first; rank < first + each && rank < shape->ranks; rank++)
            left += !masked[rank];
        if (!left) continue;
        if (nodes++ == 0) of_first = left;
        if (left != of_first) return 1;
    }
    return nodes ? nodes : 1;
}

bool rebalance_fits(const struct rebalance_shape *shape, const bool *masked) {
    return (uint64_t)count_left(shape, masked) * shape->slots_per_rank >= shape->experts;
}

uint32_t rebalance_redundancy(const struct rebalance_shape *shape, uint32_t masked_count) {
    check(masked_count < shape->ranks);
    uint32_t left = shape->ranks - masked_count;
    uint32_t each = (shape->experts + left - 1) / left; /* slots of a rank */
    /* with this many slots or more, each rank gets `each` */
    uint32_t least = (each - 1) * shape->ranks + 1;
    return least > shape->experts ? least - shape->experts : 0;
}

static void open_layer(struct rebalance_layer *layer, const struct rebalance_shape *shape,
                       const struct rebalance_prices *prices, const uint64_t *loads,
                       const bool *masked, void *memory) {
    char *at = memory;
    *layer = (struct rebalance_layer){.shape = shape, .prices = prices, .loads = loads};
    layer->left =
        rebalance_shape_of(shape, count_left(shape, masked), rebalance_count_nodes(shape, masked));
    layer->old = (uint16_t *)(void *)at;
    at += round_up_8(layer->left.slots * sizeof *layer->old);
    layer->best = (uint16_t *)(void *)at;
    at += round_up_8(layer->left.slots * sizeof *layer->best);
    layer->tried = (uint16_t *)(void *)at;
    at += round_up_8(layer->left.slots * sizeof *layer->tried);
    layer->replicas = (uint16_t *)(void *)at;
    layer->memory = at + round_up_8(shape->experts * sizeof *layer->replicas);
}

/* The slot of the expert that can spare a replica best. */
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

/* Fills `old` from the slots of the remaining ranks. */
static void rebalance_make_whole(struct rebalance_layer *layer, const bool *masked,
                                 const uint32_t *from) {
    uint32_t room = layer->shape->slots_per_rank, at = 0, expert = 0;
    memset(layer->replicas, 0, layer->shape->experts * sizeof *layer->replicas);
    for (uint32_t rank = 0; rank < layer->shape->ranks; rank++)
        for (uint32_t i = 0; !masked[rank] && i < room; i++, at++) {
            layer->old[at] = UINT16_MAX;
            if (from[rank * room + i] != REBALANCE_EMPTY) put(layer, at, from[rank * room + i]);
        }
    /* empty slots get the experts that have none */
    for (uint32_t slot = 0; slot < layer->left.slots; slot++) {
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

/* The largest rank load of the map, with masked ranks and empty slots. */
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

/* ---- prices ---- */

/* The number of copies of a token's row that leave its node. Each node is equally likely to be the
 * token's own. */
static double rebalance_copies_of(const struct rebalance_layer *layer, const uint16_t *slots) {
    struct balance_shape shape = layer->left;
    struct balance_traffic traffic;
    if (shape.nodes == 1 || shape.groups == 1) return 0;
    double away = 1 - 1.0 / shape.nodes;
    /* each rank gets its own copy of the row */
    if (!layer->prices->passes) shape.nodes = shape.ranks;
    balance_traffic(&shape, &layer->shape->choice, layer->loads, slots, &traffic);
    return traffic.copies * away;
}

static bool rebalance_holds(const uint16_t *slots, uint32_t count, uint16_t expert) {
    for (uint32_t slot = 0; slot < count; slot++)
        if (slots[slot] == expert) return true;
    return false;
}

/* The cost of the moves from the old map to `to`: the mean time on a rank's link for its new
 * experts, divided by the tokens that the new map is expected to serve. Assumes the nearest source,
 * like move_experts. */
static double moves_ns(const struct rebalance_layer *layer, const uint16_t *to) {
    const struct rebalance_prices *prices = layer->prices;
    uint32_t room = layer->shape->slots_per_rank,
             node_slots = layer->left.slots / layer->left.nodes;
    double sum = 0;
    if (!(prices->tokens > 0)) return 0;
    for (uint32_t slot = 0; slot < layer->left.slots; slot++) {
        if (to[slot] == layer->old[slot]) continue;
        if (rebalance_holds(layer->old + slot / room * room, room, to[slot])) continue;
        const uint16_t *node = layer->old + slot / node_slots * node_slots;
        sum += rebalance_holds(node, node_slots, to[slot]) ? prices->near_ns : prices->far_ns;
    }
    return sum / layer->left.ranks / prices->tokens;
}

/* The cost of a map without its moves. `busiest`: the largest rank load divided by the mean. */
static struct rebalance_cost rebalance_cost_of(const struct rebalance_layer *layer, double busiest,
                                               double copies) {
    const struct rebalance_prices *prices = layer->prices;
    if (!(prices->pair_ns > 0)) return (struct rebalance_cost){.experts = busiest};
    double pairs = layer->shape->choice.experts ? layer->shape->choice.experts : 1;
    return (struct rebalance_cost){.experts = busiest * pairs * prices->pair_ns,
                                   .nodes = copies * prices->copy_ns};
}

double rebalance_cost_sum(const struct rebalance_cost *cost) {
    return cost->experts + cost->nodes + cost->moves;
}

/* True if the placement is possible for the layer: those with nodes only if groups can stay on
 * them. */
static bool has_way(const struct rebalance_layer *layer, enum rebalance_way way) {
    bool nodes = balance_experts_divides(&layer->left) && !layer->prices->makes_answers;
    if (way == REBALANCE_GLOBAL) return !nodes || layer->prices->pair_ns > 0;
    return nodes && (way == REBALANCE_GROUPS || layer->prices->pair_ns > 0);
}

static void try_way(struct rebalance_layer *layer, enum rebalance_way way,
                    struct rebalance_gain *gain) {
    struct balance_options options = {.locality =
                                          way == REBALANCE_GROUPS ? BALANCE_STRICT : BALANCE_FREE};
    struct balance_keeping keeping = {.old = layer->old, .tolerance = TOLERANCE};
    struct balance_shape shape = layer->left;
    struct balance_outcome outcome;
    uint32_t moves;
    if (way == REBALANCE_GLOBAL) shape.groups = shape.nodes = 1;
    balance_keep(&shape, &options, layer->loads, &keeping, layer->memory, layer->tried, &outcome,
                 &moves);
    double copies = rebalance_copies_of(layer, layer->tried);
    struct rebalance_cost cost = rebalance_cost_of(layer, 1 / outcome.balance, copies);
    if (layer->prices->pair_ns > 0) cost.moves = moves_ns(layer, layer->tried);
    double least = rebalance_cost_sum(&gain->cost_after);
    gain->cost_of[way] = cost;
    if (least > 0 && rebalance_cost_sum(&cost) >= least) return;
    gain->cost_after = cost;
    gain->copies_after = copies;
    gain->way = way;
    memcpy(layer->best, layer->tried, shape.slots * sizeof *layer->best);
}

void rebalance_layer(const struct rebalance_shape *shape, const struct rebalance_prices *prices,
                     const uint64_t *loads, const bool *masked, const uint32_t *from, void *memory,
                     uint32_t *to_out, struct rebalance_gain *gain_out) {
    struct rebalance_layer layer;
    uint32_t room = shape->slots_per_rank, at = 0;
    double sum = 0;
    check(rebalance_fits(shape, masked));
    open_layer(&layer, shape, prices, loads, masked, memory);
    struct rebalance_gain gain = {.before = largest_load(&layer, from)};
    rebalance_make_whole(&layer, masked, from);
    for (int way = 0; way < REBALANCE_WAY_COUNT; way++)
        if (has_way(&layer, (enum rebalance_way)way))
            try_way(&layer, (enum rebalance_way)way, &gain);
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
    gain.copies_before = rebalance_copies_of(&layer, layer.old);
    gain.cost_before =
        rebalance_cost_of(&layer, sum > 0 ? gain.before / gain.mean : 1, gain.copies_before);
    double moves = gain.cost_after.moves;
    gain.cost_after =
        rebalance_cost_of(&layer, sum > 0 ? gain.after / gain.mean : 1, gain.copies_after);
    gain.cost_after.moves = moves;
    *gain_out = gain;
}

double rebalance_copies(const struct rebalance_shape *shape, const uint64_t *loads,
                        const uint32_t *slots) {
    uint32_t node_ranks = shape->node_ranks ? shape->node_ranks : shape->ranks;
    const struct balance_shape whole =
        rebalance_shape_of(shape, shape->ranks, shape->ranks / node_ranks);
    uint16_t experts[BALANCE_SLOTS_MAX];
    struct balance_traffic traffic;
    check(whole.slots <= BALANCE_SLOTS_MAX);
    if (shape->ranks % node_ranks || !balance_experts_divides(&whole)) return 0;
    for (uint32_t i = 0; i < whole.slots; i++)
        experts[i] = slots[i] == REBALANCE_EMPTY ? BALANCE_TRAFFIC_EMPTY : (uint16_t)slots[i];
    balance_traffic(&whole, &shape->choice, loads, experts, &traffic);
    return traffic.copies;
}

bool rebalance_changes(const struct rebalance_rule *rule, const struct rebalance_gain *gain) {
    if (gain->forced) return true;
    double before = rebalance_cost_sum(&gain->cost_before);
    return gain->moves &&
           before - rebalance_cost_sum(&gain->cost_after) > rule->layer_gain * before;
}

enum rebalance_verdict rebalance_evaluate(struct rebalance *rebalance,
                                          const struct rebalance_rule *rule,
                                          const struct rebalance_gain *gains, uint32_t layers,
                                          uint64_t choices, int64_t now_ns) {
    double before = 0, won = 0;
    bool forced = false, was_worth_it = rebalance->was_worth_it;
    for (uint32_t layer = 0; layer < layers; layer++) {
        double old = rebalance_cost_sum(&gains[layer].cost_before);
        before += old;
        if (rebalance_changes(rule, &gains[layer]))
            won += old - rebalance_cost_sum(&gains[layer].cost_after);
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
