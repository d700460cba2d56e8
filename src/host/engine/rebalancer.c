/* SPDX-License-Identifier: Apache-2.0 */
#include "host/engine/rebalancer.h"

#include "base/check.h"
#include "base/clock.h"
#include "compute/model/moves.h"
#include "contract/record_unit.h"
#include "host/engine/expert_load.h"
#include "host/engine/reassign_experts.h"
#include "host/process/log/log.h"
#include "serving/policy/balance/move_experts.h"
#include "serving/policy/balance/rebalance.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REPORTS_A_LOOK 4
#define REPORT_NS 10000000            /* interval of polls until all weights have arrived */
#define MEMORY_CHOICES_PER_EXPERT 256 /* 100 choices estimate a load within 10 % */
#define CHOICES_PER_EXPERT_MIN 32
#define LAYER_GAIN 0.02

enum rebalancer_state { WATCHES, LOOKS, MOVES };

struct rebalancer {
    struct rank_group *group;
    struct rebalancer_options options;
    struct model *model;         /* rank 0's */
    const struct placement *map; /* the present map; NULL: nothing ever moves */
    struct rebalance_shape shape;
    uint32_t layer_slots; /* slots of a layer on all ranks */
    enum rebalancer_state state;
    struct placement target;   /* the new map; only the experts of its slots are used */
    uint32_t next_layer;       /* to examine, or to move */
    struct expert_move *moves; /* [layers][layer_slots] moves of the current wave */
    uint32_t move_count;
    uint32_t *gives, *comes;       /* [ranks] experts that each sends and receives in the wave */
    struct model_moving *reported; /* [ranks] */
    uint32_t *tokens;              /* [ranks][slots of a rank] */
    uint32_t *counts;              /* [experts] */
    struct expert_load load;
    struct rebalance rebalance;
    struct rebalance_prices prices; /* as last measured */
    struct model_rank priced;       /* rank 0's counters at that time */
    double near_ns, far_ns;         /* per byte on the link within a node, and between nodes */
    struct rebalance_gain *gains;   /* [layers] */
    double *balance;                /* [layers] */
    bool *masked, *dead;            /* [ranks] */
    bool loses;                     /* the map being applied replaces experts of dead ranks */
    bool mask_changed, changed;     /* changed: a value of rebalancer_report */
    void *load_memory, *place_memory;
    int64_t next_report_ns, next_look_ns, next_notify_ns;
    uint64_t steps, shuffles, failures_before;
    struct rebalancer_counts done;
};

static struct rebalance_shape rebalancer_shape_of(const struct model *model,
                                                  const struct placement *map) {
    const struct shape *shape = model_shape(model);
    return (struct rebalance_shape){.experts = map->experts,
                                    .ranks = map->ranks,
                                    .slots_per_rank = map->slots_per_rank,
                                    .node_ranks = map->node_ranks,
                                    .groups = shape->groups,
                                    .choice = {shape->groups_kept, shape->experts_per_token}};
}

static bool rebalancer_take_memory(struct rebalancer *r) {
    size_t layers = r->map->layers, ranks = r->shape.ranks;
    r->moves = calloc(layers * r->layer_slots, sizeof *r->moves);
    r->gives = calloc(ranks, sizeof *r->gives);
    r->comes = calloc(ranks, sizeof *r->comes);
    r->reported = calloc(ranks, sizeof *r->reported);
    r->tokens = calloc(ranks * (model_slot_count(r->model) + 1), sizeof *r->tokens);
    r->counts = calloc(r->shape.experts, sizeof *r->counts);
    r->gains = calloc(layers, sizeof *r->gains);
    r->balance = calloc(layers, sizeof *r->balance);
    r->masked = calloc(ranks, sizeof *r->masked);
    r->dead = calloc(ranks, sizeof *r->dead);
    r->load_memory = malloc(expert_load_bytes((uint32_t)layers, r->shape.experts));
    r->place_memory = malloc(rebalance_bytes(&r->shape));
    return r->moves && r->gives && r->comes && r->reported && r->tokens && r->counts && r->gains &&
           r->balance && r->masked && r->dead && r->load_memory && r->place_memory;
}

/* Measures between nodes with all ranks sending to the next node, within one to the next rank. */
static void measure_links(struct rebalancer *r) {
    const uint32_t node_ranks = r->shape.node_ranks;
    r->far_ns = rank_group_measure_link(r->group, node_ranks, r->shape.ranks);
    r->near_ns = rank_group_measure_link(r->group, 1, node_ranks);
}

enum status rebalancer_open(struct rank_group *group, const struct rebalancer_options *options,
                            struct rebalancer **rebalancer_out, struct error *error) {
    struct rebalancer *r = calloc(1, sizeof *r);
    if (!r) return error_set(error, STATUS_NO_MEMORY, "no memory for the rebalancer");
    r->group = group;
    r->options = *options;
    r->model = rank_group_model(group);
    *rebalancer_out = r;
    rank_group_set_replicas(group, options->replicas);
    rank_group_set_levels(group, options->levels);
    if (!moves_room(r->model)) return STATUS_OK;
    const struct placement *map = r->map = model_placement(r->model);
    r->shape = rebalancer_shape_of(r->model, map);
    r->layer_slots = map->ranks * map->slots_per_rank;
    enum status status = placement_open(&r->target, map->layers, map->experts, map->ranks,
                                        map->slots_per_rank, error);
    if (status == STATUS_OK && !rebalancer_take_memory(r))
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the rebalancer");
    if (status != STATUS_OK) {
        rebalancer_close(r);
        return status;
    }
    expert_load_open(&r->load, map->layers, map->experts,
                     (uint64_t)map->experts * MEMORY_CHOICES_PER_EXPERT, r->load_memory);
    r->prices.makes_answers = options->role == UNIT_DECODE;
    if (map->node_ranks < map->ranks) measure_links(r);
    r->changed = true;
    r->next_report_ns = r->next_look_ns = clock_now_ns() + (int64_t)(options->seconds * 1e9);
    return STATUS_OK;
}

void rebalancer_close(struct rebalancer *r) {
    if (!r) return;
    placement_close(&r->target);
    free(r->moves);
    free(r->gives);
    free(r->comes);
    free(r->reported);
    free(r->tokens);
    free(r->counts);
    free(r->gains);
    free(r->balance);
    free(r->masked);
    free(r->dead);
    free(r->load_memory);
    free(r->place_memory);
    free(r);
}

struct rebalancer_counts rebalancer_counts(const struct rebalancer *r) {
    return r->done;
}

static uint32_t millionths(double balance) {
    return balance >= 1 ? 1000000 : (uint32_t)(balance * 1e6);
}

bool rebalancer_report(struct rebalancer *r, struct record_experts *record_out) {
    const struct rebalancer_counts *done = &r->done;
    if (!r->map || !r->changed) return false;
    r->changed = false;
    *record_out = (struct record_experts){
        .record = record_head(RECORD_EXPERTS, sizeof *record_out),
        .experts = r->shape.experts,
        .ranks = r->shape.ranks,
        .slots_per_rank = r->shape.slots_per_rank,
        .layer_count = r->map->layers,
        .rebalances_total = done->rebalances,
        .moves_total = done->moves,
        .bytes_total = done->bytes,
        .failures_total = done->failures,
        .stall_ns_total = done->stall_ns,
        .stall_ns_max = done->stall_ns_max,
        .balance = millionths(done->balance),
        .balance_before = millionths(done->balance_before),
        .balance_after = millionths(done->balance_after),
    };
    for (uint32_t layer = 0; layer < r->map->layers; layer++)
        record_out->layer_balance[layer] = millionths(r->balance[layer]);
    for (uint32_t rank = 0; rank < r->shape.ranks; rank++) {
        record_out->masked[rank / 64] |= (uint64_t)r->masked[rank] << rank % 64;
        record_out->empty[rank / 64] |= (uint64_t)rebalancer_is_empty(r, rank) << rank % 64;
    }
    return true;
}

/* ---- loads of the slots ---- */

/* Adds up the reports of all ranks for the slots of a layer; `first`: index of its first slot in
 * each report. */
static void add_report(struct rebalancer *r, uint32_t layer, uint32_t first) {
    uint32_t room = r->shape.slots_per_rank, slots = model_slot_count(r->model);
    memset(r->counts, 0, r->shape.experts * sizeof *r->counts);
    for (uint32_t rank = 0; rank < r->shape.ranks; rank++) {
        const uint32_t *experts = placement_of_rank(r->map, layer, rank);
        for (uint32_t i = 0; i < room; i++)
            if (experts[i] != PLACEMENT_EMPTY)
                r->counts[experts[i]] += r->tokens[(size_t)rank * slots + first + i];
    }
    expert_load_add(&r->load, layer, r->counts);
}

static bool rebalancer_ask(struct rebalancer *r) {
    uint32_t first = 0;
    if (!rank_group_notify(r->group, r->reported, r->tokens)) return false;
    for (uint32_t layer = 0; layer < r->map->layers; layer++) {
        if (!model_layer_moves(r->model, layer)) continue;
        add_report(r, layer, first);
        first += r->shape.slots_per_rank;
    }
    return true;
}

/* ---- a wave ---- */

/* Appends a layer's moves to the wave. Returns false and appends nothing if a rank lacks room. */
static bool add_layer(struct rebalancer *r, uint32_t layer) {
    size_t at = (size_t)layer * r->layer_slots;
    uint32_t room = r->shape.slots_per_rank, spares = moves_room(r->model);
    struct move_experts change = {.layer = layer,
                                  .ranks = r->shape.ranks,
                                  .slots_per_rank = room,
                                  .node_ranks = r->shape.node_ranks,
                                  .from = r->map->slot_expert + at,
                                  .to = r->target.slot_expert + at};
    struct expert_move *moves = r->moves + r->move_count;
    uint32_t count = move_experts(&change, r->gives, moves);
    for (uint32_t rank = 0; rank < r->shape.ranks; rank++)
        if (r->comes[rank] + move_experts_to(moves, count, rank, room) > spares) return false;
    for (uint32_t rank = 0; rank < r->shape.ranks; rank++)
        r->comes[rank] += move_experts_to(moves, count, rank, room);
    for (uint32_t i = 0; i < count && (r->loses || r->options.from_checkpoint); i++)
        moves[i].from = EXPERT_MOVE_FROM_CHECKPOINT;
    r->move_count += count;
    return true;
}

static void say_done(const struct rebalancer *r) {
    const struct rebalancer_counts *done = &r->done;
    bool is_known = done->balance_after > 0;
    log_say(LOG_INFO, "experts",
            "lie as their loads want it map=%" PRIu64 " balance_before=%.3f balance_after=%.3f "
            "moved=%" PRIu64 " moved_bytes=%" PRIu64 " stall_us_max=%.0f",
            done->version, is_known ? done->balance_before : NAN,
            is_known ? done->balance_after : NAN, done->moves, done->bytes,
            (double)done->stall_ns_max * 1e-3);
}

static void rebalancer_add_cost(struct rebalance_cost *sum, const struct rebalance_cost *cost) {
    sum->experts += cost->experts;
    sum->nodes += cost->nodes;
    sum->moves += cost->moves;
}

static double ms_of(const struct rebalance_cost *cost) {
    return rebalance_cost_sum(cost) * 1e-3;
}

/* Logs the reason for the new map, with the costs of the alternatives in milliseconds per thousand
 * tokens of each rank, through all layers. */
static void rebalancer_log_reason(const struct rebalancer *r) {
    struct rebalance_cost of[REBALANCE_WAY_COUNT] = {{0}}, before = {0}, after = {0};
    uint32_t layers[REBALANCE_WAY_COUNT] = {0}, count = 0;
    double left = 0, leaves = 0;
    if (!(r->prices.pair_ns > 0)) return;
    for (uint32_t layer = 0; layer < r->map->layers; layer++) {
        const struct rebalance_gain *gain = &r->gains[layer];
        if (!(gain->cost_after.experts > 0)) continue;
        count++;
        layers[gain->way]++;
        rebalancer_add_cost(&before, &gain->cost_before);
        rebalancer_add_cost(&after, &gain->cost_after);
        left += gain->copies_before;
        leaves += gain->copies_after;
        for (int way = 0; way < REBALANCE_WAY_COUNT; way++)
            rebalancer_add_cost(&of[way], &gain->cost_of[way]);
    }
    if (!count) return;
    log_say(LOG_INFO, "experts",
            "have this map since a thousand tokens of each rank cost least with it why=%s "
            "before_ms=%.2f after_ms=%.2f experts_ms=%.2f nodes_ms=%.2f moves_ms=%.3f "
            "copies_before=%.2f copies_after=%.2f layers_groups=%u layers_near=%u "
            "layers_global=%u groups_ms=%.2f near_ms=%.2f global_ms=%.2f pair_us=%.2f copy_us=%.2f "
            "move_near_ms=%.3f move_far_ms=%.3f tokens=%.0f",
            r->prices.makes_answers ? "makes-answers" : "price", ms_of(&before), ms_of(&after),
            after.experts * 1e-3, after.nodes * 1e-3, after.moves * 1e-3, left / count,
            leaves / count, layers[REBALANCE_GROUPS], layers[REBALANCE_NEAR],
            layers[REBALANCE_GLOBAL], ms_of(&of[REBALANCE_GROUPS]), ms_of(&of[REBALANCE_NEAR]),
            ms_of(&of[REBALANCE_GLOBAL]), r->prices.pair_ns * 1e-3, r->prices.copy_ns * 1e-3,
            r->prices.near_ns * 1e-6, r->prices.far_ns * 1e-6, r->prices.tokens);
}

static void end_map(struct rebalancer *r) {
    r->state = WATCHES;
    r->changed = true;
    r->done.rebalances++;
    rebalance_done(&r->rebalance, clock_now_ns());
    expert_load_restart(&r->load);
    if (!r->options.says || r->loses) return;
    say_done(r);
    rebalancer_log_reason(r);
}

/* Starts a wave with the next layers that fit. If none are left, the new map is complete. */
static void begin_expert_batch(struct rebalancer *r) {
    r->move_count = 0;
    memset(r->gives, 0, r->shape.ranks * sizeof *r->gives);
    memset(r->comes, 0, r->shape.ranks * sizeof *r->comes);
    for (; r->next_layer < r->map->layers; r->next_layer++)
        if (model_layer_moves(r->model, r->next_layer) && !add_layer(r, r->next_layer)) break;
    if (r->move_count)
        rank_group_move(r->group, r->moves, r->move_count,
                        r->loses ? 0 : r->options.bytes_per_second);
    else
        end_map(r);
}

static void rebalancer_begin_moving(struct rebalancer *r) {
    r->state = MOVES;
    r->next_layer = 0;
    r->next_notify_ns = 0;
    begin_expert_batch(r);
}

static bool is_through(struct rebalancer *r) {
    if (!rebalancer_ask(r)) return false;
    for (uint32_t rank = 0; rank < r->shape.ranks; rank++)
        if (r->reported[rank].pending) return false;
    return true;
}

static void rebalancer_adopt(struct rebalancer *r) {
    struct rebalancer_counts *done = &r->done;
    uint64_t dropped[LIMIT_LAYERS / 64] = {0};
    done->moves = done->bytes = 0;
    for (uint32_t rank = 0; rank < r->shape.ranks; rank++) {
        const struct model_moving *reported = &r->reported[rank];
        done->moves += reported->moves;
        done->bytes += reported->bytes;
        done->failures += reported->failures;
        if (reported->failures)
            log_say(LOG_WARNING, "experts", "some did not come to a rank rank=%u why=%s", rank,
                    reported->error.text);
        for (uint32_t i = 0; i < LIMIT_LAYERS / 64; i++)
            dropped[i] |= reported->failed[i];
    }
    int64_t began_ns = clock_now_ns();
    rank_group_adopt(r->group, dropped);
    int64_t stall_ns = clock_now_ns() - began_ns;
    done->version++;
    done->stall_ns += stall_ns;
    if (stall_ns > done->stall_ns_max) done->stall_ns_max = stall_ns;
}

static void rebalancer_move(struct rebalancer *r, int64_t now_ns) {
    moves_progress(r->model); /* there may be no step to call it */
    if (now_ns < r->next_notify_ns) return;
    r->next_notify_ns = now_ns + REPORT_NS;
    if (!is_through(r)) return;
    rebalancer_adopt(r);
    begin_expert_batch(r);
}

/* Runs all waves to the end, or until a rank dies. */
static void finish_moving(struct rebalancer *r) {
    while (r->state == MOVES && !rank_group_is_broken(r->group)) {
        if (!is_through(r)) continue;
        rebalancer_adopt(r);
        begin_expert_batch(r);
    }
}

/* ---- a random map ---- */

/* Starts to apply a random map, unless a map is being applied. */
static void rebalancer_reshuffle(struct rebalancer *r) {
    if (!r->map || r->state != WATCHES) return;
    placement_spread(&r->target, ++r->shuffles);
    rebalancer_begin_moving(r);
}

static void reshuffle(struct rebalancer *r) {
    if (r->state == WATCHES) {
        if (r->steps % r->options.reshuffle_steps == 0) rebalancer_reshuffle(r);
        return;
    }
    finish_moving(r);
}

/* ---- a better map ---- */

static struct rebalance_rule rule_of(const struct rebalancer *r) {
    return (struct rebalance_rule){.gain = r->options.gain,
                                   .layer_gain = LAYER_GAIN,
                                   .choices_min =
                                       (uint64_t)r->shape.experts * CHOICES_PER_EXPERT_MIN,
                                   .rest_ns = (int64_t)(r->options.seconds * 1e9)};
}

/* The number of choices since the last new map, of the layer with the most. */
static uint64_t most_choices(const struct rebalancer *r) {
    uint64_t most = 0;
    for (uint32_t layer = 0; layer < r->map->layers; layer++)
        if (r->load.choices[layer] > most) most = r->load.choices[layer];
    return most;
}

/* All layers have been examined. */
static void rebalancer_verify(struct rebalancer *r, int64_t now_ns) {
    struct rebalance_rule rule = rule_of(r);
    double mean = 0, before = 0, after = 0;
    r->state = WATCHES;
    r->changed = true;
    r->next_look_ns = now_ns + (int64_t)(r->options.seconds * 1e9);
    for (uint32_t layer = 0; layer < r->map->layers; layer++) {
        struct rebalance_gain *gain = &r->gains[layer];
        bool changes = rebalance_changes(&rule, gain);
        r->balance[layer] = gain->before > 0 ? gain->mean / gain->before : 0;
        mean += gain->mean;
        before += gain->before;
        after += changes ? gain->after : gain->before;
        size_t at = (size_t)layer * r->layer_slots, bytes = r->layer_slots * sizeof(uint32_t);
        if (!changes) memcpy(r->target.slot_expert + at, r->map->slot_expert + at, bytes);
    }
    r->done.balance = before > 0 ? mean / before : 0;
    if (rebalance_evaluate(&r->rebalance, &rule, r->gains, r->map->layers, most_choices(r),
                           now_ns) != REBALANCE_GOES)
        return;
    r->done.balance_before = r->done.balance;
    r->done.balance_after = after > 0 ? mean / after : 0;
    rebalancer_begin_moving(r);
}

/* Examines one layer: some tens of microseconds between two steps. */
static void rebalancer_plan_layer(struct rebalancer *r, int64_t now_ns) {
    uint32_t layer = r->next_layer++;
    if (layer == r->map->layers) {
        rebalancer_verify(r, now_ns);
        return;
    }
    r->gains[layer] = (struct rebalance_gain){.moves = 0};
    if (!model_layer_moves(r->model, layer)) return;
    size_t at = (size_t)layer * r->layer_slots;
    rebalance_layer(&r->shape, &r->prices, expert_load_of(&r->load, layer), r->masked,
                    r->map->slot_expert + at, r->place_memory, r->target.slot_expert + at,
                    &r->gains[layer]);
}

/* Updates the prices: the time of rank 0's experts per token-expert pair since the last update, the
 * links' time for a token's rows and for an expert, and the number of tokens that the map
 * served. */
static void set_prices(struct rebalancer *r) {
    struct model_rank now = model_rank(r->model);
    uint64_t pairs = now.pairs - r->priced.pairs;
    if (r->shape.node_ranks == r->shape.ranks || pairs == 0) return;
    r->prices.pair_ns = (double)(now.experts_ns - r->priced.experts_ns) / (double)pairs;
    double far_ns = fmax(r->far_ns, model_byte_ns(r->model, false));
    double near_ns = fmax(r->near_ns, model_byte_ns(r->model, true));
    r->prices.copy_ns = far_ns * model_copy_bytes(r->model);
    r->prices.near_ns = near_ns * (double)model_expert_bytes(r->model);
    r->prices.far_ns = far_ns * (double)model_expert_bytes(r->model);
    r->prices.tokens = (double)most_choices(r) / (r->shape.choice.experts * (double)r->shape.ranks);
    r->prices.passes = rank_group_goes_by_nodes(r->group);
    r->priced = now;
}

static void rebalancer_watch(struct rebalancer *r, int64_t now_ns) {
    if (!r->options.measured && !r->mask_changed) return;
    if (now_ns >= r->next_report_ns || r->mask_changed) {
        rebalancer_ask(r);
        r->next_report_ns = now_ns + (int64_t)(r->options.seconds * 1e9 / REPORTS_A_LOOK);
    }
    if (now_ns < r->next_look_ns && !r->mask_changed) return;
    r->mask_changed = false;
    r->state = LOOKS;
    r->next_layer = 0;
    set_prices(r);
}

void rebalancer_turn(struct rebalancer *r) {
    int64_t now_ns = clock_now_ns();
    r->steps++;
    if (!r->map) return;
    if (r->options.reshuffle_steps)
        reshuffle(r);
    else if (r->state == WATCHES)
        rebalancer_watch(r, now_ns);
    else if (r->state == LOOKS)
        rebalancer_plan_layer(r, now_ns);
    else
        rebalancer_move(r, now_ns);
}

bool rebalancer_is_busy(const struct rebalancer *r) {
    return r->map && (r->mask_changed || r->state != WATCHES);
}

void rebalancer_set_role(struct rebalancer *r, enum unit_role role) {
    r->prices.makes_answers = role == UNIT_DECODE;
}

/* ---- masked ranks ---- */

enum status rebalancer_mask(struct rebalancer *r, uint32_t rank, bool masked, struct error *error) {
    uint32_t count = 0;
    if (!r->map || rank >= r->shape.ranks)
        return error_set(error, STATUS_INVALID, "cannot mask rank %u: the unit has %u ranks", rank,
                         rank_group_count(r->group));
    bool before = r->masked[rank];
    r->masked[rank] = masked;
    for (uint32_t i = 0; i < r->shape.ranks; i++)
        count += r->masked[i];
    if (count == r->shape.ranks || !rebalance_fits(&r->shape, r->masked)) {
        r->masked[rank] = before;
        return error_set(error, STATUS_INVALID,
                         "rank %u cannot be masked: the others have %u slots in a layer for %u "
                         "experts; this needs --redundant-experts %u",
                         rank, (r->shape.ranks - count) * r->shape.slots_per_rank, r->shape.experts,
                         count < r->shape.ranks ? rebalance_redundancy(&r->shape, count) : 0);
    }
    r->mask_changed |= masked != before;
    r->changed |= masked != before;
    return STATUS_OK;
}

/* ---- dead ranks ---- */

static uint32_t choose_survivors(struct rebalancer *r) {
    uint32_t read = 0;
    for (uint32_t layer = 0; layer < r->map->layers; layer++) {
        size_t at = (size_t)layer * r->layer_slots;
        if (model_layer_moves(r->model, layer))
            read += reassign_experts(&r->shape, r->dead, r->map->slot_expert + at, r->counts,
                                     r->gives, r->target.slot_expert + at);
    }
    return read;
}

/* Finds the living ranks. Sets *died_out if a rank has died since the last call. */
static enum status mask_dead(struct rebalancer *r, bool *died_out, struct error *error) {
    uint32_t dead = 0;
    *died_out = false;
    for (uint32_t rank = 0; rank < r->shape.ranks; rank++) {
        bool was_dead = r->dead[rank];
        dead += r->dead[rank] = !rank_group_lives(r->group, rank);
        *died_out |= r->dead[rank] && !(was_dead && rebalancer_is_empty(r, rank));
        r->masked[rank] = r->dead[rank] || (r->masked[rank] && !was_dead);
    }
    if (rebalance_fits(&r->shape, r->masked)) return STATUS_OK;
    memcpy(r->masked, r->dead, r->shape.ranks * sizeof *r->masked); /* drained ranks are needed */
    if (rebalance_fits(&r->shape, r->dead)) return STATUS_OK;
    return error_set(error, STATUS_FULL,
                     "the surviving ranks have %u slots in a layer for %u experts; this "
                     "needs --redundant-experts %u",
                     (r->shape.ranks - dead) * r->shape.slots_per_rank, r->shape.experts,
                     rebalance_redundancy(&r->shape, dead));
}

static enum status read_lost(struct rebalancer *r, uint32_t *read_out, struct error *error) {
    *read_out = choose_survivors(r);
    r->loses = true;
    rebalancer_begin_moving(r);
    finish_moving(r);
    r->loses = false;
    r->state = WATCHES;
    if (rank_group_is_broken(r->group))
        return error_set(error, STATUS_GONE, "another rank has died");
    for (uint32_t rank = 0; rank < r->shape.ranks; rank++)
        if (r->dead[rank] && !rebalancer_is_empty(r, rank))
            return error_set(error, STATUS_IO, "experts of rank %u cannot be read", rank);
    return STATUS_OK;
}

enum status rebalancer_regroup(struct rebalancer *r, uint32_t *read_out, struct error *error) {
    bool died;
    if (!r->map) return error_set(error, STATUS_FULL, "its experts have no other slots");
    enum status status = mask_dead(r, &died, error);
    *read_out = 0;
    r->state = WATCHES; /* a map that was being applied is abandoned */
    r->changed = true;
    return status || !died ? status : read_lost(r, read_out, error);
}

bool rebalancer_is_empty(const struct rebalancer *r, uint32_t rank) {
    for (uint32_t layer = 0; layer < r->map->layers; layer++)
        for (uint32_t i = 0; i < r->shape.slots_per_rank && model_layer_moves(r->model, layer); i++)
            if (placement_of_rank(r->map, layer, rank)[i] != PLACEMENT_EMPTY) return false;
    return true;
}
