/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/balance_keep.h"

#include <string.h>

#include "base/check.h"
#include "serving/policy/balance_pack.h"

#define NO_BIN UINT32_MAX

struct keep {
    const struct balance_shape *shape;
    const uint16_t *old;
    uint64_t *loads;    /* [experts] scaled */
    uint16_t *fresh;    /* [slots] the best placement */
    uint16_t *renamed;  /* [slots] */
    uint16_t *overlaps; /* [ranks][ranks] slots of a fresh bin that an old one holds already */
    uint16_t *first,
        *used; /* [experts] of an expert's items: where they begin, how many are placed */
    uint32_t *name, *user; /* [ranks] a fresh bin's old name; who uses an old name */
    struct balance_state state;
    char *rest; /* memory for balance_experts */
};

/* Bins are ranks or nodes: runs of `room` slots, from the first slot on. */
struct bins {
    uint32_t first, count, room;
};

static size_t aligned(size_t bytes) {
    return (bytes + 7) & ~(size_t)7;
}

size_t balance_keep_bytes(const struct balance_shape *shape) {
    return aligned(sizeof(struct keep)) + shape->experts * sizeof(uint64_t) +
           2 * aligned(shape->slots * sizeof(uint16_t)) +
           aligned((size_t)shape->ranks * shape->ranks * sizeof(uint16_t)) +
           2 * aligned(shape->experts * sizeof(uint16_t)) +
           2 * aligned(shape->ranks * sizeof(uint32_t)) +
           balance_state_bytes(shape->experts, shape->slots, shape->ranks) +
           balance_experts_bytes(shape);
}

static void *cut(char **at, size_t bytes) {
    void *start = *at;
    *at += aligned(bytes);
    return start;
}

static struct keep *open_keep(const struct balance_shape *shape, const uint64_t *loads,
                              const uint16_t *old, uint32_t without, void *memory) {
    char *at = memory;
    struct keep *keep = cut(&at, sizeof *keep);
    *keep = (struct keep){.shape = shape, .old = old};
    keep->loads = cut(&at, shape->experts * sizeof *keep->loads);
    keep->fresh = cut(&at, shape->slots * sizeof *keep->fresh);
    keep->renamed = cut(&at, shape->slots * sizeof *keep->renamed);
    keep->overlaps = cut(&at, (size_t)shape->ranks * shape->ranks * sizeof *keep->overlaps);
    keep->first = cut(&at, shape->experts * sizeof *keep->first);
    keep->used = cut(&at, shape->experts * sizeof *keep->used);
    keep->name = cut(&at, shape->ranks * sizeof *keep->name);
    keep->user = cut(&at, shape->ranks * sizeof *keep->user);
    balance_state_open(&keep->state, shape->experts, shape->slots, shape->ranks, keep->loads,
                       cut(&at, balance_state_bytes(shape->experts, shape->slots, shape->ranks)));
    balance_state_scale(loads, shape->experts, keep->loads);
    keep->state.without = without;
    keep->rest = at;
    return keep;
}

/* All replicas of the state's placement, heaviest first, into the state's list; none is placed. */
static void list_items(struct keep *keep) {
    struct balance_state *state = &keep->state;
    uint32_t at = 0;
    for (uint32_t e = 0; e < state->expert_count; e++)
        state->keys[e] = balance_state_key(state->shares[e], e);
    balance_state_sort(state->keys, state->other_keys, state->expert_count);
    for (uint32_t i = 0; i < state->expert_count; i++) {
        uint32_t e = balance_state_key_id(state->keys[i]);
        keep->first[e] = (uint16_t)at;
        keep->used[e] = 0;
        for (uint32_t left = state->counts[e]; left > 0; left--)
            state->list[at++] = (uint16_t)e;
    }
}

static bool is_placed(const struct keep *keep, uint32_t item) {
    uint32_t e = keep->state.list[item];
    return item - keep->first[e] < keep->used[e];
}

/* Pairs what is not placed, the heaviest with the lightest; false when a pair exceeds the target.
 * Writes the pairs to `out` unless it is NULL. */
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

/* Two slots a rank: pairs of the old placement that the new counts and the target allow stay
 * together, as long as the rest can still be paired. The state holds the best placement. */
static void keep_pairs(struct keep *keep, uint64_t target) {
    const struct balance_state *state = &keep->state;
    uint16_t *out = keep->fresh;
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
    memcpy(state->experts, keep->fresh, state->slot_count * sizeof *keep->fresh);
    balance_state_recount(&keep->state);
    balance_pack_spread(&keep->state, (struct balance_span){0, state->rank_count});
    memcpy(keep->fresh, state->experts, state->slot_count * sizeof *keep->fresh);
}

/* Experts of one run of slots that another run has, too; duplicates count as often as both have
 * them. keep->state's counts are scratch here. */
static uint32_t overlap(struct keep *keep, const uint16_t *fresh, const uint16_t *old,
                        uint32_t room) {
    uint16_t *counts = keep->state.counts;
    uint32_t common = 0;
    for (uint32_t i = 0; i < room; i++)
        counts[old[i]] = 0;
    for (uint32_t i = 0; i < room; i++)
        counts[fresh[i]] = 0;
    for (uint32_t i = 0; i < room; i++)
        counts[old[i]]++;
    for (uint32_t i = 0; i < room; i++)
        if (counts[fresh[i]] > 0) {
            counts[fresh[i]]--;
            common++;
        }
    return common;
}

/* Bins with the most in common first. */
static void name_greedily(struct keep *keep, struct bins bins) {
    for (uint32_t i = 0; i < bins.count; i++)
        keep->name[i] = keep->user[i] = NO_BIN;
    for (uint32_t most = bins.room + 1; most-- > 0;)
        for (uint32_t i = 0; i < bins.count; i++)
            for (uint32_t j = 0; j < bins.count && keep->name[i] == NO_BIN; j++)
                if (keep->user[j] == NO_BIN && keep->overlaps[i * bins.count + j] >= most) {
                    keep->name[i] = j;
                    keep->user[j] = i;
                }
}

/* Pairs exchange names while that keeps more. */
static void improve_names(struct keep *keep, struct bins bins) {
    const uint16_t *overlaps = keep->overlaps;
    for (bool better = true; better;) {
        better = false;
        for (uint32_t i = 0; i < bins.count; i++)
            for (uint32_t j = 0; j < i; j++) {
                uint32_t a = keep->name[i], b = keep->name[j];
                if (overlaps[i * bins.count + b] + overlaps[j * bins.count + a] <=
                    overlaps[i * bins.count + a] + overlaps[j * bins.count + b])
                    continue;
                keep->name[i] = b;
                keep->name[j] = a;
                better = true;
            }
    }
}

/* Bins of keep->fresh change places so that they are where most of what they hold is already. */
static void rename_bins(struct keep *keep, struct bins bins) {
    for (uint32_t i = 0; i < bins.count; i++)
        for (uint32_t j = 0; j < bins.count; j++)
            keep->overlaps[i * bins.count + j] =
                (uint16_t)overlap(keep, keep->fresh + bins.first + (size_t)i * bins.room,
                                  keep->old + bins.first + (size_t)j * bins.room, bins.room);
    name_greedily(keep, bins);
    if (!(keep->state.without & BALANCE_BETTER_NAMES)) improve_names(keep, bins);
    for (uint32_t i = 0; i < bins.count; i++)
        memcpy(keep->renamed + (size_t)keep->name[i] * bins.room,
               keep->fresh + bins.first + (size_t)i * bins.room, bins.room * sizeof *keep->fresh);
    memcpy(keep->fresh + bins.first, keep->renamed,
           (size_t)bins.count * bins.room * sizeof *keep->fresh);
}

static void rename_all(struct keep *keep, bool strict) {
    const struct balance_shape *shape = keep->shape;
    uint32_t room = shape->slots / shape->ranks, node_ranks = shape->ranks / shape->nodes;
    if (!strict) {
        rename_bins(keep, (struct bins){0, shape->ranks, room});
        return;
    }
    rename_bins(keep, (struct bins){0, shape->nodes, node_ranks * room});
    for (uint32_t node = 0; node < shape->nodes; node++)
        rename_bins(keep, (struct bins){node * node_ranks * room, node_ranks, room});
}

/* What stays on a rank stays in its slot. */
static void align_slots(struct keep *keep) {
    uint32_t room = keep->shape->slots / keep->shape->ranks;
    for (uint32_t slot = 0; slot < keep->shape->slots; slot++) {
        uint32_t first = slot / room * room;
        for (uint32_t at = first; at < first + room; at++) {
            if (keep->fresh[at] != keep->old[slot] || keep->fresh[at] == keep->old[at]) continue;
            if (keep->fresh[slot] == keep->old[slot]) break;
            uint16_t expert = keep->fresh[slot];
            keep->fresh[slot] = keep->fresh[at];
            keep->fresh[at] = expert;
            break;
        }
    }
}

static uint32_t count_moves(const struct keep *keep, const uint16_t *slots) {
    uint32_t moves = 0;
    for (uint32_t slot = 0; slot < keep->shape->slots; slot++)
        moves += slots[slot] != keep->old[slot];
    return moves;
}

static bool keeps_to_nodes(const struct keep *keep) {
    const struct balance_shape *shape = keep->shape;
    uint32_t group_experts = shape->experts / shape->groups;
    uint32_t *homes = keep->name; /* groups <= experts, but not <= ranks: by pieces */
    for (uint32_t start = 0; start < shape->groups; start += shape->ranks) {
        for (uint32_t i = 0; i < shape->ranks; i++)
            homes[i] = NO_BIN;
        for (uint32_t slot = 0; slot < shape->slots; slot++) {
            uint32_t group = keep->old[slot] / group_experts - start;
            uint32_t node = slot / (shape->slots / shape->nodes);
            if (group >= shape->ranks) continue;
            if (homes[group] == NO_BIN) homes[group] = node;
            if (homes[group] != node) return false;
        }
    }
    return true;
}

/* Searches from the old placement; true when it comes down to the target. */
static bool repair(struct keep *keep, bool strict, uint64_t target) {
    const struct balance_shape *shape = keep->shape;
    uint32_t node_ranks = shape->ranks / shape->nodes;
    uint32_t span_ranks = strict ? node_ranks : shape->ranks;
    bool divides = balance_experts_divides(shape);
    if (strict && !keeps_to_nodes(keep)) return false;
    memcpy(keep->state.experts, keep->old, shape->slots * sizeof *keep->old);
    balance_state_recount(&keep->state);
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
    struct keep *keep = open_keep(shape, loads, keeping->old, options->without, memory);
    bool strict = options->locality == BALANCE_STRICT && balance_experts_divides(shape);
    check(keeping->tolerance >= 0);
    balance_experts(shape, options, loads, keep->rest, keep->fresh, outcome_out);
    memcpy(keep->state.experts, keep->fresh, shape->slots * sizeof *keep->fresh);
    balance_state_recount(&keep->state);
    uint64_t best = balance_state_max(&keep->state);
    uint64_t target = best + (uint64_t)((double)best * keeping->tolerance);
    if (keep->state.room == 2 && !strict && !(options->without & BALANCE_KEEP_PAIRS))
        keep_pairs(keep, target);
    if (!(options->without & BALANCE_NAMES)) rename_all(keep, strict);
    if (!(options->without & BALANCE_ALIGN)) align_slots(keep);
    uint32_t moves = count_moves(keep, keep->fresh);
    const uint16_t *chosen = keep->fresh;
    if (!(options->without & BALANCE_REPAIR) && repair(keep, strict, target) &&
        count_moves(keep, keep->state.experts) < moves) {
        moves = count_moves(keep, keep->state.experts);
        chosen = keep->state.experts;
    }
    memcpy(slot_to_expert_out, chosen, shape->slots * sizeof *slot_to_expert_out);
    balance_experts_judge(shape, loads, keep->rest, slot_to_expert_out, outcome_out);
    *moves_out = moves;
}
