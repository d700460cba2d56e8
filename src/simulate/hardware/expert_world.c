/* SPDX-License-Identifier: Apache-2.0
 * Loads change only at full hours, so balancer checks that would read the same loads again are
 * skipped.
 */
#include "simulate/hardware/expert_world.h"

#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "base/number.h"
#include "base/random.h"
#include "serving/policy/balance/move_experts.h"
#include "serving/policy/balance/rebalance.h"

#define HOUR_NS 3600000000000
/* The defaults of host/engine/rebalancer and of the options of `fathom serve`. */
#define LOOK_NS 30000000000
#define GAIN 0.05
#define LAYER_GAIN 0.02
#define REPORTS_A_LOOK 4
#define CHOICES_PER_EXPERT_MIN 32
#define MEMORY_CHOICES_PER_EXPERT 256
#define LOOKS 6              /* checks per hour: two for a map, two more, and the rest */
#define HOT_SHARE (1.0 / 32) /* share of a layer's experts that become hot */
#define LOAD_UNIT 1e12       /* the load of a layer, in the integers of the balancer */

static uint32_t expert_world_slots_of(const struct expert_world_options *options) {
    return (uint32_t)divide_up(options->model->experts +
                                   (options->balances ? options->redundant_experts : 0),
                               options->ranks);
}

static uint32_t layers_of(const struct expert_world_options *options) {
    return options->model->layers - options->model->dense_layers;
}

static struct rebalance_shape expert_world_shape_of(const struct expert_world_options *options) {
    const struct model_figures *model = options->model;
    return (struct rebalance_shape){.experts = model->experts,
                                    .ranks = options->ranks,
                                    .slots_per_rank = expert_world_slots_of(options),
                                    .node_ranks = options->ranks_per_node,
                                    .groups = model->expert_groups,
                                    .choice = {model->groups_per_token, model->experts_per_token}};
}

size_t expert_world_bytes(const struct expert_world_options *options) {
    const struct rebalance_shape shape = expert_world_shape_of(options);
    size_t layers = layers_of(options),
           slots = (size_t)options->ranks * expert_world_slots_of(options);
    size_t each = 16 * options->model->experts + 16 * options->ranks + 8 * slots +
                  sizeof(struct rebalance_gain) + sizeof(double) + sizeof(bool);
    size_t once = 8 * options->model->experts + 5 * options->ranks +
                  slots * sizeof(struct expert_move) + sizeof(struct rebalance) +
                  EXPERT_NOISE * sizeof(double);
    return layers * each + once + rebalance_bytes(&shape) + 4096;
}

/* ---- random numbers ---- */

/* A normal variable (Box-Muller). */
static double expert_world_normal_at(uint64_t seed, uint64_t at) {
    double u = random_uniform(seed, (uint32_t)(at >> 24) * 2, (uint32_t)at & 0xffffff);
    double v = random_uniform(seed, (uint32_t)(at >> 24) * 2 + 1, (uint32_t)at & 0xffffff);
    return sqrt(-2 * log(1 - u)) * cos(2 * M_PI * v);
}

/* The next normal variable of the world's sequence. */
static double draw_normal(struct expert_world *world) {
    return expert_world_normal_at(world->options.seed, world->draws++);
}

static bool is_hot(const struct expert_world *world, uint32_t layer, uint32_t expert) {
    uint32_t which = world->heats * LIMIT_LAYERS + layer;
    return world->heat != 1 && random_uniform(~world->options.seed, which, expert) < HOT_SHARE;
}

static void choose_loads(struct expert_world *world) {
    for (uint32_t layer = 0; layer < world->layers; layer++) {
        const double *logs = world->logs + (size_t)layer * world->experts;
        double *chosen = world->chosen + (size_t)layer * world->experts, sum = 0;
        for (uint32_t e = 0; e < world->experts; e++)
            sum += chosen[e] =
                exp(world->options.skew * logs[e]) * (is_hot(world, layer, e) ? world->heat : 1);
        for (uint32_t e = 0; e < world->experts; e++)
            chosen[e] /= sum;
    }
}

static void drift(struct expert_world *world, int64_t hours) {
    double kept = pow(1 - world->options.drift, (double)hours);
    if (world->options.skew == 0 || kept == 1) return;
    for (size_t i = 0; i < (size_t)world->layers * world->experts; i++)
        world->logs[i] = sqrt(kept) * world->logs[i] + sqrt(1 - kept) * draw_normal(world);
    choose_loads(world);
}

/* ---- the pairs of each rank ---- */

void expert_world_draw(struct expert_world *world, uint32_t layer, double mean, double *pairs_out) {
    const uint32_t ranks = world->options.ranks;
    const double *shares = world->shares + (size_t)layer * ranks, all = mean * ranks;
    const double *deviations = world->deviations + (size_t)layer * ranks, root = sqrt(all);
    /* Multiples of the golden ratio never come near the same place twice in a row. */
    uint64_t at = world->pair_draws++ * 0x9e3779b97f4a7c15 >> 32;
    for (uint32_t r = 0; r < ranks; r++) {
        double chance = root * deviations[r] * world->noise[(at + r) % EXPERT_NOISE];
        pairs_out[r] = max_double(0, all * shares[r] + chance);
    }
}

/* The mean number of nodes that a token is sent to in the layer. */
static double count_copies(struct expert_world *world, uint32_t layer) {
    const struct rebalance_shape shape = expert_world_shape_of(&world->options);
    const double *chosen = world->chosen + (size_t)layer * world->experts;
    size_t count = (size_t)shape.ranks * shape.slots_per_rank;
    for (uint32_t e = 0; e < world->experts; e++)
        world->loads[e] = (uint64_t)(LOAD_UNIT * chosen[e]);
    return rebalance_copies(&shape, world->loads, world->slots + layer * count);
}

static void expert_world_weigh(struct expert_world *world, uint32_t layer) {
    const uint32_t ranks = world->options.ranks, room = world->slots_per_rank;
    const uint32_t *slots = world->slots + (size_t)layer * ranks * room;
    const double *chosen = world->chosen + (size_t)layer * world->experts;
    double *shares = world->shares + (size_t)layer * ranks;
    double *deviations = world->deviations + (size_t)layer * ranks;
    uint16_t replicas[LIMIT_EXPERTS] = {0};
    for (uint32_t i = 0; i < ranks * room; i++)
        if (slots[i] != REBALANCE_EMPTY) replicas[slots[i]]++;
    for (uint32_t r = 0; r < ranks; r++) {
        double variance = 0;
        shares[r] = 0;
        for (uint32_t i = r * room; i < (r + 1) * room; i++)
            if (slots[i] != REBALANCE_EMPTY) {
                double share = chosen[slots[i]] / replicas[slots[i]];
                shares[r] += share;
                variance += share / replicas[slots[i]];
            }
        deviations[r] = world->options.skew == 0 || ranks == 1 ? 0 : sqrt(variance);
    }
    world->copies[layer] = count_copies(world, layer);
}

static void weigh_all(struct expert_world *world) {
    for (uint32_t layer = 0; layer < world->layers; layer++)
        expert_world_weigh(world, layer);
}

double expert_world_balance(const struct expert_world *world, uint32_t layer) {
    const double *shares = world->shares + (size_t)layer * world->options.ranks;
    double top = 0;
    for (uint32_t r = 0; r < world->options.ranks; r++)
        top = max_double(top, shares[r]);
    return top * world->options.ranks;
}

/* ---- maps ---- */

/* Places consecutive experts on each rank. A rank that would have none gets a copy from another
 * rank. */
static void lay_in_order(struct expert_world *world) {
    const uint32_t ranks = world->options.ranks, room = world->slots_per_rank;
    for (uint32_t layer = 0; layer < world->layers; layer++)
        for (uint32_t r = 0; r < ranks; r++) {
            uint32_t *slots = world->slots + ((size_t)layer * ranks + r) * room;
            uint32_t first = r * world->experts / ranks, end = (r + 1) * world->experts / ranks;
            for (uint32_t i = 0; i < room; i++)
                slots[i] = first + i < max_u32(end, first + 1) ? first + i : REBALANCE_EMPTY;
        }
}

/* Computes the loads as the rebalancer measures them. Over n choices, a share s has the variance s
 * / n. A report larger than the rebalancer's memory replaces all of it. At the start there is no
 * noise. */
static void see_loads(struct expert_world *world, uint32_t layer) {
    const double *chosen = world->chosen + (size_t)layer * world->experts;
    double remembered = 2.0 * MEMORY_CHOICES_PER_EXPERT * world->experts +
                        (double)(world->counted - world->counted_before) / REPORTS_A_LOOK;
    for (uint32_t e = 0; e < world->experts; e++) {
        double seen = chosen[e];
        if (world->began) seen += sqrt(chosen[e] / remembered) * draw_normal(world);
        world->loads[e] = (uint64_t)(LOAD_UNIT * max_double(0, seen));
    }
}

static void look_at_layers(struct expert_world *world) {
    const struct rebalance_shape shape = expert_world_shape_of(&world->options);
    struct rebalance_prices prices = world->options.prices;
    size_t count = (size_t)shape.ranks * shape.slots_per_rank;
    prices.tokens = (double)world->choices / (shape.choice.experts * (double)shape.ranks);
    for (uint32_t layer = 0; layer < world->layers; layer++) {
        see_loads(world, layer);
        rebalance_layer(&shape, &prices, world->loads, world->masked, world->slots + layer * count,
                        world->place_memory, world->target + layer * count, &world->gains[layer]);
    }
    world->counted_before = world->counted;
}

static void expert_world_adopt(struct expert_world *world) {
    size_t count = (size_t)world->options.ranks * world->slots_per_rank;
    for (uint32_t layer = 0; layer < world->layers; layer++) {
        if (!world->changes[layer]) continue;
        memcpy(world->slots + layer * count, world->target + layer * count,
               count * sizeof *world->slots);
        expert_world_weigh(world, layer);
    }
}

/* Determines which experts move, and when the move ends. */
static void expert_world_begin_moving(struct expert_world *world, const struct rebalance_rule *rule,
                                      int64_t now_ns) {
    const struct rebalance_shape shape = expert_world_shape_of(&world->options);
    const struct model_figures *model = world->options.model;
    size_t count = (size_t)shape.ranks * shape.slots_per_rank;
    uint32_t most = 0;
    world->new_moves = 0;
    memset(world->gives, 0, shape.ranks * sizeof *world->gives);
    for (uint32_t layer = 0; layer < world->layers; layer++) {
        world->changes[layer] = rebalance_changes(rule, &world->gains[layer]);
        if (!world->changes[layer]) continue;
        struct move_experts change = {.layer = layer,
                                      .ranks = shape.ranks,
                                      .slots_per_rank = shape.slots_per_rank,
                                      .node_ranks = shape.node_ranks,
                                      .from = world->slots + layer * count,
                                      .to = world->target + layer * count};
        world->new_moves += move_experts(&change, world->gives, world->moves);
    }
    for (uint32_t r = 0; r < shape.ranks; r++)
        most = max_u32(most, world->gives[r]);
    double bytes = 3.0 * model->hidden * model->expert_hidden * most;
    world->expert_batches = 1 + (uint32_t)(bytes / world->options.moves.memory_bytes);
    world->moved_ns = now_ns + (int64_t)(bytes * 8 / world->options.moves.gbps) + 1;
}

static void expert_world_look(struct expert_world *world, int64_t now_ns) {
    const struct rebalance_rule rule = {GAIN, LAYER_GAIN,
                                        (uint64_t)world->experts * CHOICES_PER_EXPERT_MIN, LOOK_NS};
    world->next_look_ns = now_ns + LOOK_NS;
    world->looks--;
    look_at_layers(world);
    enum rebalance_verdict verdict = rebalance_evaluate(world->rebalance, &rule, world->gains,
                                                        world->layers, world->choices, now_ns);
    if (verdict == REBALANCE_GOES) expert_world_begin_moving(world, &rule, now_ns);
    if (verdict == REBALANCE_NOT_WORTH_IT) world->looks = 0;
}

static double end_moving(struct expert_world *world, int64_t now_ns) {
    expert_world_adopt(world);
    rebalance_done(world->rebalance, now_ns);
    world->moved_ns = 0;
    world->next_look_ns = now_ns + LOOK_NS;
    world->choices = 0;
    world->move_count += world->new_moves;
    return world->options.moves.adopt_us * world->expert_batches;
}

/* ---- time ---- */

bool expert_world_is_moving(const struct expert_world *world) {
    return world->moved_ns != 0;
}

static void begin(struct expert_world *world, int64_t now_ns) {
    world->began = true;
    world->first_ns = now_ns;
}

double expert_world_advance(struct expert_world *world, int64_t now_ns, double tokens) {
    if (!world->began) begin(world, now_ns);
    int64_t hour = (now_ns - world->first_ns) / HOUR_NS;
    uint64_t choices = (uint64_t)(tokens * world->options.model->experts_per_token);
    world->choices += choices;
    world->counted += choices;
    if (hour > world->hour) {
        drift(world, hour - world->hour);
        if (world->options.skew > 0 && world->options.drift > 0) weigh_all(world);
        world->hour = hour;
        world->looks = world->options.balances && world->options.skew > 0 ? LOOKS : 0;
        world->next_look_ns = now_ns + LOOK_NS;
        world->counted_before = world->counted;
    }
    if (world->moved_ns && now_ns >= world->moved_ns) return end_moving(world, now_ns);
    if (!world->moved_ns && world->looks && now_ns >= world->next_look_ns)
        expert_world_look(world, now_ns);
    return 0;
}

void expert_world_heat(struct expert_world *world, double factor, int64_t now_ns) {
    if (factor == world->heat) return;
    world->heat = factor;
    world->heats++;
    choose_loads(world);
    weigh_all(world);
    world->looks = world->options.balances ? LOOKS : 0;
    if (world->next_look_ns <= now_ns) world->next_look_ns = now_ns + LOOK_NS;
}

static bool expert_world_take_memory(struct expert_world *world, struct arena *arena) {
    const struct rebalance_shape shape = expert_world_shape_of(&world->options);
    size_t layers = world->layers, slots = (size_t)shape.ranks * shape.slots_per_rank;
    size_t experts = layers * world->experts;
    return (world->logs = arena_take_zeroed(arena, experts * sizeof *world->logs)) &&
           (world->chosen = arena_take(arena, experts * sizeof *world->chosen)) &&
           (world->shares = arena_take(arena, layers * shape.ranks * sizeof *world->shares)) &&
           (world->copies = arena_take_zeroed(arena, layers * sizeof *world->copies)) &&
           (world->deviations = arena_take(arena, layers * shape.ranks * sizeof(double))) &&
           (world->noise = arena_take(arena, EXPERT_NOISE * sizeof *world->noise)) &&
           (world->slots = arena_take(arena, layers * slots * sizeof *world->slots)) &&
           (world->target = arena_take(arena, layers * slots * sizeof *world->target)) &&
           (world->loads = arena_take(arena, world->experts * sizeof *world->loads)) &&
           (world->masked = arena_take_zeroed(arena, shape.ranks * sizeof *world->masked)) &&
           (world->changes = arena_take_zeroed(arena, layers * sizeof *world->changes)) &&
           (world->gains = arena_take_zeroed(arena, layers * sizeof *world->gains)) &&
           (world->rebalance = arena_take_zeroed(arena, sizeof *world->rebalance)) &&
           (world->moves = arena_take(arena, slots * sizeof *world->moves)) &&
           (world->gives = arena_take(arena, shape.ranks * sizeof *world->gives)) &&
           (world->place_memory = arena_take(arena, rebalance_bytes(&shape)));
}

/* With balancing, the unit starts with the best placement for its loads, as if it had run
 * before. */
bool expert_world_open(struct expert_world *world, struct arena *arena,
                       const struct expert_world_options *options) {
    *world = (struct expert_world){.options = *options,
                                   .layers = layers_of(options),
                                   .experts = options->model->experts,
                                   .heat = 1,
                                   .slots_per_rank = expert_world_slots_of(options)};
    if (!expert_world_take_memory(world, arena)) return false;
    for (size_t i = 0; i < (size_t)world->layers * world->experts && options->skew > 0; i++)
        world->logs[i] = draw_normal(world);
    for (uint32_t i = 0; i < EXPERT_NOISE; i++)
        world->noise[i] = expert_world_normal_at(~options->seed, i);
    choose_loads(world);
    lay_in_order(world);
    if (options->balances && options->ranks > 1) {
        look_at_layers(world);
        memset(world->changes, true, world->layers * sizeof *world->changes);
        expert_world_adopt(world);
    } else {
        weigh_all(world);
    }
    return true;
}
