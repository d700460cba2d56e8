/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/balance/balance_keep.h"

#include <string.h>

#include "base/check.h"
#include "serving/policy/balance/balance_counts.h"
#include "serving/policy/balance/balance_pack.h"

#define NONE UINT32_MAX

struct keep {
    const struct balance_shape *shape;
    const uint16_t *old;
    uint32_t room;          /* slots of a rank */
    uint64_t *loads;        /* [experts] scaled */
    uint16_t *fresh;        /* [slots] the best placement */
    uint16_t *renamed;      /* [slots] */
    uint16_t *overlaps;     /* number of experts in common between a fresh rank and an old one */
    uint16_t *first, *used; /* [experts] index of its first replica, count of placed ones */
    uint32_t *name, *user;  /* [ranks] old name of a fresh rank; fresh rank with an old name */
    struct balance_state state;
    char *rest; /* memory for balance_experts */
};

size_t balance_keep_bytes(const struct balance_shape *shape) {
    return round_up_8(sizeof(struct keep)) + shape->experts * sizeof(uint64_t) +
           2 * round_up_8(shape->slots * sizeof(uint16_t)) +
           round_up_8((size_t)shape->ranks * shape->ranks * sizeof(uint16_t)) +
           2 * round_up_8(shape->experts * sizeof(uint16_t)) +
           2 * round_up_8(shape->ranks * sizeof(uint32_t)) +
           balance_state_bytes(shape->experts, shape->slots, shape->ranks) +
           balance_experts_bytes(shape);
}

static struct keep *open_keep(const struct balance_shape *shape, const uint64_t *loads,
                              const uint16_t *old, void *memory) {
    char *at = memory;
    struct keep *keep = balance_state_cut(&at, sizeof *keep);
    *keep = (struct keep){.shape = shape, .old = old, .room = shape->slots / shape->ranks};
    keep->loads = balance_state_cut(&at, shape->experts * sizeof *keep->loads);
    keep->fresh = balance_state_cut(&at, shape->slots * sizeof *keep->fresh);
    keep->renamed = balance_state_cut(&at, shape->slots * sizeof *keep->renamed);
    keep->overlaps =
        balance_state_cut(&at, (size_t)shape->ranks * shape->ranks * sizeof *keep->overlaps);
    keep->first = balance_state_cut(&at, shape->experts * sizeof *keep->first);
    keep->used = balance_state_cut(&at, shape->experts * sizeof *keep->used);
    keep->name = balance_state_cut(&at, shape->ranks * sizeof *keep->name);
    keep->user = balance_state_cut(&at, shape->ranks * sizeof *keep->user);
    balance_state_open(
        &keep->state, shape->experts, shape->slots, shape->ranks, keep->loads,
        balance_state_cut(&at, balance_state_bytes(shape->experts, shape->slots, shape->ranks)));
    balance_state_scale(loads, shape->experts, keep->loads);
    keep->rest = at;
    return keep;
}

static void balance_keep_look_at(struct keep *keep, const uint16_t *slots) {
    memcpy(keep->state.experts, slots, keep->shape->slots * sizeof *slots);
    balance_state_recount(&keep->state);
}

/* Lists all replicas of the state's placement, heaviest first, and marks them as not placed. */
static void list_items(struct keep *keep) {
    struct balance_state *state = &keep->state;
    uint16_t *ids = keep->used;
    for (uint32_t e = 0; e < state->expert_count; e++)
        ids[e] = (uint16_t)e;
    balance_counts_list(state, ids, state->expert_count, state->list);
    for (uint32_t at = state->slot_count; at-- > 0;)
        keep->first[state->list[at]] = (uint16_t)at;
    memset(keep->used, 0, state->expert_count * sizeof *keep->used);
}

static bool is_placed(const struct keep *keep, uint32_t item) {
    uint32_t e = keep->state.list[item];
    return item - keep->first[e] < keep->used[e];
}

/* Pairs the remaining replicas, the heaviest with the lightest, and writes the pairs to `out`
 * unless it is NULL. Returns false if a pair exceeds the target. */
static bool pair_rest(const struct keep *keep, uint64_t target, uint16_t *out) {
    const struct balance_state *state = &keep->state;
    uint32_t low = 0, high = state->slot_count - 1;
    for (;; low++, high--) {
        while (low < high && is_placed(keep, low))
            low++;
        while (low < high && is_placed(keep, high))
            high--;
        if (low >= high) return true;
        uint32_t a = state->list[low], b = state->list[high];
        if (state->shares[a] + state->shares[b] > target) return false;
        if (!out) continue;
        *out++ = (uint16_t)a;
        *out++ = (uint16_t)b;
    }
}

/* For two slots per rank: keeps pairs of the old placement that the new counts and the target
 * allow, as long as the rest can still be paired. */
static void keep_pairs(struct keep *keep, uint64_t target) {
    const struct balance_state *state = &keep->state;
    uint16_t *out = keep->renamed;
    balance_keep_look_at(keep, keep->fresh);
    list_items(keep);
    for (uint32_t slot = 0; slot < state->slot_count; slot += 2) {
        uint32_t a = keep->old[slot], b = keep->old[slot + 1];
        if (a == b || state->shares[a] + state->shares[b] > target) continue;
        if (keep->used[a] == state->counts[a] || keep->used[b] == state->counts[b]) continue;
        keep->used[a]++;
        keep->used[b]++;
        if (pair_rest(keep, target, NULL)) {
            *out++ = (uint16_t)a;
            *out++ = (uint16_t)b;
        } else {
            keep->used[a]--;
            keep->used[b]--;
        }
    }
    check(pair_rest(keep, target, out));
    balance_keep_look_at(keep, keep->renamed);
    balance_pack_spread(&keep->state, (struct balance_span){0, state->rank_count});
    memcpy(keep->fresh, state->experts, state->slot_count * sizeof *keep->fresh);
}

/* Ranges of slots that may exchange names: ranks, or whole nodes. */
struct name_runs {
    uint32_t first_slot, count, slots; /* slots of each range */
};

/* The number of replicas that a fresh range and an old one have in common. Uses keep->state's
 * counts as scratch. */
static uint32_t overlap(struct keep *keep, const uint16_t *fresh, const uint16_t *old,
                        uint32_t slots) {
    uint16_t *counts = keep->state.counts;
    uint32_t common = 0;
    for (uint32_t i = 0; i < slots; i++)
        counts[old[i]] = counts[fresh[i]] = 0;
    for (uint32_t i = 0; i < slots; i++)
        counts[old[i]]++;
    for (uint32_t i = 0; i < slots; i++)
        if (counts[fresh[i]] > 0) {
            counts[fresh[i]]--;
            common++;
        }
    return common;
}

/* Assigns old names to the fresh ranges, in the order of the most replicas in common. */
static void choose_names(struct keep *keep, const struct name_runs *runs) {
    uint32_t count = runs->count;
    for (uint32_t i = 0; i < count; i++)
        keep->name[i] = keep->user[i] = NONE;
    for (uint32_t most = runs->slots + 1; most-- > 0;)
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t j = 0; j < count && keep->name[i] == NONE; j++)
                if (keep->user[j] == NONE && keep->overlaps[i * count + j] >= most) {
                    keep->name[i] = j;
                    keep->user[j] = i;
                }
}

/* Permutes the ranges of keep->fresh so that most of their experts are already in place. */
static void rename_runs(struct keep *keep, struct name_runs runs) {
    uint32_t count = runs.count, slots = runs.slots;
    uint16_t *fresh = keep->fresh + runs.first_slot;
    const uint16_t *old = keep->old + runs.first_slot;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < count; j++)
            keep->overlaps[i * count + j] =
                (uint16_t)overlap(keep, fresh + i * slots, old + j * slots, slots);
    choose_names(keep, &runs);
    for (uint32_t i = 0; i < count; i++)
        memcpy(keep->renamed + keep->name[i] * slots, fresh + i * slots, slots * sizeof *fresh);
    memcpy(fresh, keep->renamed, (size_t)count * slots * sizeof *fresh);
}

/* Renames nodes first, then the ranks of each. */
static void rename_nodes(struct keep *keep) {
    const struct balance_shape *shape = keep->shape;
    uint32_t node_slots = shape->slots / shape->nodes;
    rename_runs(keep, (struct name_runs){0, shape->nodes, node_slots});
    for (uint32_t node = 0; node < shape->nodes; node++)
        rename_runs(keep,
                    (struct name_runs){node * node_slots, shape->ranks / shape->nodes, keep->room});
}

/* Uses the best placement, permuted so that as many experts as possible are already in place. */
static void reuse(struct keep *keep, bool strict, uint64_t target) {
    bool pairs = keep->room == 2 && !strict; /* a pair may belong to groups of two nodes */
    if (pairs) keep_pairs(keep, target);
    if (strict)
        rename_nodes(keep);
    else
        rename_runs(keep, (struct name_runs){0, keep->shape->ranks, keep->room});
}

static uint32_t count_moves(const struct keep *keep, const uint16_t *slots) {
    uint32_t moves = 0;
    for (uint32_t slot = 0; slot < keep->shape->slots; slot++)
        moves += slots[slot] != keep->old[slot];
    return moves;
}

/* True if the old placement has every group on one node. */
static bool keeps_to_nodes(const struct keep *keep) {
    const struct balance_shape *shape = keep->shape;
    uint16_t *homes = keep->first; /* [groups] */
    memset(homes, 0xFF, shape->experts * sizeof *homes);
    for (uint32_t slot = 0; slot < shape->slots; slot++) {
        uint32_t group = keep->old[slot] / (shape->experts / shape->groups);
        uint32_t node = slot / (shape->slots / shape->nodes);
        if (homes[group] == UINT16_MAX) homes[group] = (uint16_t)node;
        if (homes[group] != node) return false;
    }
    return true;
}

/* Searches from the old placement. Returns true if it reaches the target. */
static bool repair(struct keep *keep, bool strict, uint64_t target) {
    const struct balance_shape *shape = keep->shape;
    uint32_t node_ranks = shape->ranks / shape->nodes;
    uint32_t span_ranks = strict ? node_ranks : shape->ranks;
    bool divides = balance_experts_divides(shape);
    if (strict && !keeps_to_nodes(keep)) return false;
    balance_keep_look_at(keep, keep->old);
    for (uint32_t first = 0; first < shape->ranks; first += span_ranks) {
        struct balance_span span = {first, span_ranks};
        struct balance_search search = {span, divides ? node_ranks : span_ranks, target,
                                        8 * span_ranks + 64};
        balance_pack_refine(&keep->state, &search);
    }
    return balance_state_max(&keep->state) <= target;
}

void balance_keep(const struct balance_shape *shape, const struct balance_options *options,
                  const uint64_t *loads, const struct balance_keeping *keeping, void *memory,
                  uint16_t *slot_to_expert_out, struct balance_outcome *outcome_out,
                  uint32_t *moves_out) {
    struct keep *keep = open_keep(shape, loads, keeping->old, memory);
    bool strict = options->locality == BALANCE_STRICT && balance_experts_divides(shape);
    uint32_t moves = UINT32_MAX;
    check(keeping->tolerance >= 0);
    balance_experts(shape, options, loads, keep->rest, keep->fresh, outcome_out);
    balance_keep_look_at(keep, keep->fresh);
    uint64_t best = balance_state_max(&keep->state);
    uint64_t target = best + (uint64_t)((double)best * keeping->tolerance);
    if (repair(keep, strict, target)) {
        memcpy(slot_to_expert_out, keep->state.experts, shape->slots * sizeof *keep->old);
        moves = count_moves(keep, slot_to_expert_out);
    }
    if (keep->room == 2 || moves == UINT32_MAX) {
        reuse(keep, strict, target);
        if (count_moves(keep, keep->fresh) < moves) {
            memcpy(slot_to_expert_out, keep->fresh, shape->slots * sizeof *keep->old);
            moves = count_moves(keep, slot_to_expert_out);
        }
    }
    balance_experts_evaluate(shape, loads, keep->rest, slot_to_expert_out, outcome_out);
    *moves_out = moves;
}
