/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/balance/balance_experts.h"

#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/number.h"
#include "serving/policy/balance/balance_counts.h"
#include "serving/policy/balance/balance_pack.h"
#include "serving/policy/balance/balance_pairs.h"

#define NEAR_ENOUGH 1024 /* stop when the largest load exceeds the bound by less than 1/1024 */

_Static_assert(LIMIT_EXPERTS <= BALANCE_SLOTS_MAX, "every expert has a slot");
_Static_assert(BALANCE_SLOTS_MAX < 0xFFFF, "slots and experts are 16-bit numbers");

struct work {
    const struct balance_shape *shape;
    struct balance_state state; /* the placement that the search changes */
    struct balance_state other; /* another placement for comparison */
    /* placement of groups on nodes: groups act as experts, and nodes as ranks */
    struct balance_state group;
    uint64_t *loads;       /* [experts] scaled */
    uint64_t *group_loads; /* [groups] */
    uint16_t *ids;         /* [experts] */
    uint16_t *items;       /* [slots] */
    uint64_t total, bound; /* sum of loads; lower bound of the largest rank load */
};

enum status balance_experts_check(const struct balance_shape *shape, struct error *error) {
    if (!shape->experts || shape->experts > LIMIT_EXPERTS)
        return error_set(error, STATUS_INVALID, "%u experts: expected 1 to %d", shape->experts,
                         LIMIT_EXPERTS);
    if (shape->slots > BALANCE_SLOTS_MAX)
        return error_set(error, STATUS_INVALID, "%u slots: expected at most %d", shape->slots,
                         BALANCE_SLOTS_MAX);
    if (shape->slots < shape->experts)
        return error_set(error, STATUS_INVALID,
                         "%u slots cannot hold %u experts: every expert needs at least one slot",
                         shape->slots, shape->experts);
    if (!shape->ranks || shape->slots % shape->ranks)
        return error_set(
            error, STATUS_INVALID,
            "%u slots do not divide over %u ranks: each rank must have the same number",
            shape->slots, shape->ranks);
    if (!shape->nodes || !shape->groups)
        return error_set(error, STATUS_INVALID, "%u nodes, %u groups: expected at least 1",
                         shape->nodes, shape->groups);
    if (!balance_experts_divides(shape)) return STATUS_OK; /* nodes and groups are irrelevant */
    if (shape->ranks % shape->nodes)
        return error_set(
            error, STATUS_INVALID,
            "%u ranks do not divide over %u nodes: each node must have the same number",
            shape->ranks, shape->nodes);
    if (shape->experts % shape->groups)
        return error_set(
            error, STATUS_INVALID,
            "%u experts do not divide into %u groups: each group must have the same number",
            shape->experts, shape->groups);
    return STATUS_OK;
}

bool balance_experts_divides(const struct balance_shape *shape) {
    return shape->nodes > 1 && shape->groups % shape->nodes == 0;
}

size_t balance_experts_bytes(const struct balance_shape *shape) {
    size_t state = balance_state_bytes(shape->experts, shape->slots, shape->ranks);
    return round_up_8(sizeof(struct work)) + 2 * state +
           balance_state_bytes(shape->groups, shape->groups, shape->nodes) +
           (shape->experts + shape->groups) * sizeof(uint64_t) +
           round_up_8(shape->experts * sizeof(uint16_t)) +
           round_up_8(shape->slots * sizeof(uint16_t));
}

static void open_work(struct work **work_out, const struct balance_shape *shape,
                      const uint64_t *loads, void *memory) {
    char *at = memory;
    struct work *work = balance_state_cut(&at, sizeof *work);
    size_t state_bytes = balance_state_bytes(shape->experts, shape->slots, shape->ranks);
    check(balance_experts_check(shape, NULL) == STATUS_OK);
    *work = (struct work){.shape = shape};
    work->loads = balance_state_cut(&at, shape->experts * sizeof *work->loads);
    work->group_loads = balance_state_cut(&at, shape->groups * sizeof *work->group_loads);
    work->ids = balance_state_cut(&at, shape->experts * sizeof *work->ids);
    work->items = balance_state_cut(&at, shape->slots * sizeof *work->items);
    balance_state_open(&work->state, shape->experts, shape->slots, shape->ranks, work->loads,
                       balance_state_cut(&at, state_bytes));
    balance_state_open(&work->other, shape->experts, shape->slots, shape->ranks, work->loads,
                       balance_state_cut(&at, state_bytes));
    if (balance_experts_divides(shape))
        balance_state_open(&work->group, shape->groups, shape->groups, shape->nodes,
                           work->group_loads, at);
    work->total = balance_state_scale(loads, shape->experts, work->loads);
    *work_out = work;
}

static void list_all(struct work *work) {
    for (uint32_t e = 0; e < work->shape->experts; e++)
        work->ids[e] = (uint16_t)e;
}

static void balance_experts_find_bound(struct work *work) {
    uint64_t mean = (work->total + work->shape->ranks - 1) / work->shape->ranks, needed = 0;
    for (uint32_t e = 0; e < work->shape->experts; e++)
        needed += work->loads[e] <= mean ? 1 : (work->loads[e] + mean - 1) / mean;
    work->bound = mean;
    if (needed <= work->shape->slots) return;
    list_all(work);
    work->bound = balance_counts_choose(&work->state, work->ids, work->shape->experts,
                                        work->shape->slots, UINT32_MAX);
    if (work->bound < mean) work->bound = mean;
}

/* Chooses counts for all slots at once, with at most one replica per rank if that suffices. */
static void balance_experts_count_all(struct work *work, struct balance_state *state) {
    const struct balance_shape *shape = work->shape;
    list_all(work);
    balance_counts_choose(state, work->ids, shape->experts, shape->slots, shape->ranks);
}

static void balance_experts_place_all(struct work *work, struct balance_state *state) {
    const struct balance_shape *shape = work->shape;
    struct balance_span all = {0, shape->ranks};
    balance_experts_count_all(work, state);
    balance_counts_list(state, work->ids, shape->experts, work->items);
    balance_pack_fill(state, all, work->items);
}

static void place_groups(struct work *work) {
    const struct balance_shape *shape = work->shape;
    struct balance_state *group = &work->group;
    struct balance_span all = {0, shape->nodes};
    uint32_t group_experts = shape->experts / shape->groups;
    for (uint32_t g = 0; g < shape->groups; g++) {
        work->group_loads[g] = 0;
        work->ids[g] = (uint16_t)g;
        for (uint32_t e = g * group_experts; e < (g + 1) * group_experts; e++)
            work->group_loads[g] += work->loads[e];
    }
    balance_counts_choose(group, work->ids, shape->groups, shape->groups, 1);
    balance_counts_list(group, work->ids, shape->groups, work->items);
    balance_pack_fill(group, all, work->items);
}

/* Places the experts of each node's groups on the ranks of that node. */
static void place_in_nodes(struct work *work, struct balance_state *state) {
    const struct balance_shape *shape = work->shape;
    uint32_t group_experts = shape->experts / shape->groups;
    uint32_t node_groups = shape->groups / shape->nodes, node_ranks = shape->ranks / shape->nodes;
    for (uint32_t node = 0; node < shape->nodes; node++) {
        struct balance_span span = {node * node_ranks, node_ranks};
        const uint16_t *groups = work->group.experts + (size_t)node * node_groups;
        uint32_t count = 0;
        for (uint32_t g = 0; g < node_groups; g++)
            for (uint32_t e = 0; e < group_experts; e++)
                work->ids[count++] = (uint16_t)(groups[g] * group_experts + e);
        balance_counts_choose(state, work->ids, count, shape->slots / shape->nodes, node_ranks);
        balance_counts_list(state, work->ids, count, work->items);
        balance_pack_fill(state, span, work->items);
    }
}

static void place_greedily(struct work *work, struct balance_state *state) {
    if (balance_experts_divides(work->shape)) {
        place_groups(work);
        place_in_nodes(work, state);
    } else {
        balance_experts_place_all(work, state);
    }
}

static uint64_t near_enough(uint64_t bound) {
    return bound + bound / NEAR_ENOUGH;
}

/* Searches over all ranks. `near_ranks`: ranks of a node; exchanges within a node are preferred. */
static void balance_experts_refine(const struct work *work, struct balance_state *state,
                                   struct balance_span span, uint32_t near_ranks, uint64_t bound) {
    struct balance_search search = {span, near_ranks, near_enough(bound), 8 * span.rank_count + 64};
    balance_pack_spread(state, span);
    balance_pack_refine(state, &search);
}

static void refine_all(const struct work *work, struct balance_state *state) {
    const struct balance_shape *shape = work->shape;
    bool near = balance_experts_divides(shape);
    balance_experts_refine(work, state, (struct balance_span){0, shape->ranks},
                           near ? shape->ranks / shape->nodes : shape->ranks, work->bound);
}

/* Searches within each node independently. No node needs to become better than the best that the
 * fullest node can reach. */
static void search_strictly(struct work *work) {
    uint32_t node_ranks = work->shape->ranks / work->shape->nodes;
    place_greedily(work, &work->state);
    uint64_t fullest = balance_state_max(&work->group) / node_ranks;
    for (uint32_t first = 0; first < work->shape->ranks; first += node_ranks)
        balance_experts_refine(work, &work->state, (struct balance_span){first, node_ranks},
                               node_ranks, max_u64(fullest, work->bound));
}

/* Searches over the counts of replicas, which matter most with two slots per rank. Starts from the
 * counts and pairing of the greedy placement. */
static void search_pairs(struct work *work, struct balance_state *state) {
    const struct balance_shape *shape = work->shape;
    struct balance_span all = {0, shape->ranks};
    balance_experts_count_all(work, state);
    for (uint32_t e = 0; e < shape->experts; e++)
        state->keys[e] = balance_state_key(work->loads[e], e);
    balance_state_sort(state->keys, state->other_keys, shape->experts);
    for (uint32_t i = 0; i < shape->experts; i++)
        work->items[i] = (uint16_t)balance_state_key_id(state->keys[i]);
    balance_pairs_place(state, work->items, work->bound);
    balance_pack_spread(state, all);
}

static void search_freely(struct work *work) {
    bool pairs = work->state.room == 2;
    if (pairs && !balance_experts_divides(work->shape)) {
        search_pairs(work, &work->state);
        return;
    }
    place_greedily(work, &work->state);
    refine_all(work, &work->state);
    if (balance_state_max(&work->state) <= near_enough(work->bound)) return;
    if (!balance_experts_divides(work->shape)) return;
    if (pairs) {
        search_pairs(work, &work->other);
    } else {
        balance_experts_place_all(work, &work->other);
        refine_all(work, &work->other);
    }
    if (balance_state_max(&work->other) < balance_state_max(&work->state))
        balance_state_copy(&work->state, &work->other);
}

static void balance_experts_verify(const struct work *work, struct balance_outcome *outcome_out) {
    double mean = (double)work->total / work->shape->ranks;
    double bound = mean / (double)work->bound;
    *outcome_out = (struct balance_outcome){
        .balance = mean / (double)balance_state_max(&work->state),
        .bound = bound < 1 ? bound : 1,
    };
}

static void balance_experts_give(const struct work *work, uint16_t *slot_to_expert_out,
                                 struct balance_outcome *outcome_out) {
    memcpy(slot_to_expert_out, work->state.experts,
           work->shape->slots * sizeof *slot_to_expert_out);
    balance_experts_verify(work, outcome_out);
}

void balance_experts(const struct balance_shape *shape, const struct balance_options *options,
                     const uint64_t *loads, void *memory, uint16_t *slot_to_expert_out,
                     struct balance_outcome *outcome_out) {
    struct work *work;
    open_work(&work, shape, loads, memory);
    balance_experts_find_bound(work);
    if (options->locality == BALANCE_STRICT && balance_experts_divides(shape))
        search_strictly(work);
    else
        search_freely(work);
    balance_experts_give(work, slot_to_expert_out, outcome_out);
}

void balance_experts_greedy(const struct balance_shape *shape, const uint64_t *loads, void *memory,
                            uint16_t *slot_to_expert_out, struct balance_outcome *outcome_out) {
    struct work *work;
    open_work(&work, shape, loads, memory);
    balance_experts_find_bound(work);
    place_greedily(work, &work->state);
    balance_experts_give(work, slot_to_expert_out, outcome_out);
}

void balance_experts_evaluate(const struct balance_shape *shape, const uint64_t *loads,
                              void *memory, const uint16_t *slot_to_expert,
                              struct balance_outcome *outcome_out) {
    struct work *work;
    open_work(&work, shape, loads, memory);
    balance_experts_find_bound(work);
    memcpy(work->state.experts, slot_to_expert, shape->slots * sizeof *slot_to_expert);
    balance_state_recount(&work->state);
    balance_experts_verify(work, outcome_out);
}
