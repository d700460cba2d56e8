/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/exchange/split_tokens.h"

#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"

/* Values of reached_by that are no slot: no path to the rank is known; or a path begins there,
 * because the rank has a replica of the expert with the tokens to be placed. */
#define NOT_REACHED UINT32_MAX
#define REACHED_FIRST (UINT32_MAX - 1)

size_t split_tokens_bytes(uint32_t expert_count, uint32_t slot_count, uint32_t rank_count) {
    return round_up_8((expert_count + 1) * sizeof(uint32_t)) +
           round_up_8(slot_count * sizeof(uint16_t)) +
           2 * round_up_8(rank_count * sizeof(uint32_t)) +
           round_up_8(rank_count * sizeof(uint16_t));
}

/* The next `bytes` of the caller's memory. */
static void *split_tokens_cut(char **at, size_t bytes) {
    void *start = *at;
    *at += round_up_8(bytes);
    return start;
}

void split_tokens_open(struct split_tokens *split, uint32_t expert_count, uint32_t slot_count,
                       uint32_t rank_count, const uint16_t *slot_to_expert, void *memory) {
    char *at = memory;
    check(rank_count > 0 && slot_count % rank_count == 0 && slot_count < UINT16_MAX);
    *split = (struct split_tokens){.expert_count = expert_count,
                                   .slot_count = slot_count,
                                   .rank_count = rank_count,
                                   .slots_per_rank = slot_count / rank_count,
                                   .slot_to_expert = slot_to_expert};
    split->firsts = split_tokens_cut(&at, (expert_count + 1) * sizeof *split->firsts);
    split->slots = split_tokens_cut(&at, slot_count * sizeof *split->slots);
    split->loads = split_tokens_cut(&at, rank_count * sizeof *split->loads);
    split->reached_by = split_tokens_cut(&at, rank_count * sizeof *split->reached_by);
    split->queue = split_tokens_cut(&at, rank_count * sizeof *split->queue);
    /* A counting sort of the slots by expert. */
    memset(split->firsts, 0, (expert_count + 1) * sizeof *split->firsts);
    for (uint32_t slot = 0; slot < slot_count; slot++) {
        if (slot_to_expert[slot] == SPLIT_TOKENS_EMPTY) continue;
        check(slot_to_expert[slot] < expert_count);
        split->firsts[slot_to_expert[slot]]++;
    }
    for (uint32_t e = 0, sum = 0; e <= expert_count; e++) { /* firsts: counts become ends */
        check(e == expert_count || split->firsts[e] > 0);
        sum += split->firsts[e];
        split->firsts[e] = sum;
    }
    for (uint32_t slot = slot_count; slot-- > 0;) /* firsts: ends fall to beginnings */
        if (slot_to_expert[slot] != SPLIT_TOKENS_EMPTY)
            split->slots[--split->firsts[slot_to_expert[slot]]] = (uint16_t)slot;
}

static uint32_t replicas_of(const struct split_tokens *split, uint32_t expert) {
    return split->firsts[expert + 1] - split->firsts[expert];
}

static uint32_t split_tokens_rank_of(const struct split_tokens *split, uint32_t slot) {
    return slot / split->slots_per_rank;
}

/* Places the tokens of experts with one replica. */
static void place_single(struct split_tokens *split, const uint32_t *counts, uint32_t *takes) {
    memset(split->loads, 0, split->rank_count * sizeof *split->loads);
    for (uint32_t e = 0; e < split->expert_count; e++) {
        uint32_t slot = split->slots[split->firsts[e]];
        if (replicas_of(split, e) > 1) continue;
        takes[slot] = counts[e];
        split->loads[split_tokens_rank_of(split, slot)] += counts[e];
    }
}

/* The first level (T of split_tokens.h, tokens of a rank), after place_single. It is a lower bound
 * of any split: the mean load, each rank's load so far, and for each expert the mean over its ranks
 * if they take only its tokens. */
static uint32_t first_level(const struct split_tokens *split, const uint32_t *counts) {
    uint64_t total = 0;
    for (uint32_t e = 0; e < split->expert_count; e++)
        total += counts[e];
    check(total <= UINT32_MAX);
    uint32_t level = (uint32_t)divide_up(total, split->rank_count);
    for (uint32_t rank = 0; rank < split->rank_count; rank++)
        if (split->loads[rank] > level) level = split->loads[rank];
    for (uint32_t e = 0; e < split->expert_count; e++) {
        uint64_t sum = counts[e];
        uint32_t replicas = replicas_of(split, e);
        check(replicas > 0); /* every expert has a slot */
        if (replicas == 1) continue;
        for (uint32_t i = split->firsts[e]; i < split->firsts[e + 1]; i++)
            sum += split->loads[split_tokens_rank_of(split, split->slots[i])];
        if (sum > (uint64_t)level * replicas) level = (uint32_t)divide_up(sum, replicas);
    }
    return level;
}

/* Places as many of the expert's tokens as its ranks take below the level. Returns how many are
 * left. */
static uint32_t fill(struct split_tokens *split, uint32_t expert, uint32_t tokens, uint32_t level,
                     uint32_t *takes) {
    for (uint32_t i = split->firsts[expert]; i < split->firsts[expert + 1]; i++) {
        uint32_t *load = &split->loads[split_tokens_rank_of(split, split->slots[i])];
        uint32_t some = level - *load < tokens ? level - *load : tokens;
        takes[split->slots[i]] += some;
        *load += some;
        tokens -= some;
    }
    return tokens;
}

/* Appends to queue[*count] those ranks of the expert's replicas that are not reached yet. They are
 * reached `by` a slot of the expert, from which its tokens would move, or by REACHED_FIRST. */
static void split_tokens_reach(struct split_tokens *split, uint32_t expert, uint32_t by,
                               uint32_t *count) {
    for (uint32_t i = split->firsts[expert]; i < split->firsts[expert + 1]; i++) {
        uint32_t rank = split_tokens_rank_of(split, split->slots[i]);
        if (split->reached_by[rank] != NOT_REACHED) continue;
        split->reached_by[rank] = by;
        split->queue[(*count)++] = (uint16_t)rank;
    }
}

/* Finds an augmenting path by breadth-first search: from a replica of the expert to a rank below
 * the level. Each full rank on the path makes room: it moves tokens of another expert to that
 * expert's replica on the next rank. Returns the last rank; reached_by leads back. If there is no
 * path: returns rank_count, and queue[0..*reached_out) has the ranks that were reached. */
static uint32_t find_path(struct split_tokens *split, uint32_t expert, uint32_t level,
                          const uint32_t *takes, uint32_t *reached_out) {
    uint32_t count = 0;
    memset(split->reached_by, 0xFF, split->rank_count * sizeof *split->reached_by);
    split_tokens_reach(split, expert, REACHED_FIRST, &count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rank = split->queue[i];
        if (split->loads[rank] < level) return rank;
        uint32_t first = rank * split->slots_per_rank;
        for (uint32_t slot = first; slot < first + split->slots_per_rank; slot++)
            if (takes[slot] > 0 && replicas_of(split, split->slot_to_expert[slot]) > 1)
                split_tokens_reach(split, split->slot_to_expert[slot], slot, &count);
    }
    *reached_out = count;
    return split->rank_count;
}

/* The expert's slot on a rank that has one. */
static uint32_t slot_on(const struct split_tokens *split, uint32_t expert, uint32_t rank) {
    uint32_t at = split->firsts[expert];
    while (split_tokens_rank_of(split, split->slots[at]) != rank)
        at++;
    return split->slots[at];
}

/* Moves up to `tokens` along find_path's path to rank `end`. The expert's tokens are placed on the
 * first rank, and every rank on the path but `end` keeps its load. Returns how many moved. */
static uint32_t move_along_path(struct split_tokens *split, uint32_t expert, uint32_t end,
                                uint32_t tokens, uint32_t level, uint32_t *takes) {
    uint32_t some = level - split->loads[end] < tokens ? level - split->loads[end] : tokens;
    for (uint32_t rank = end; split->reached_by[rank] != REACHED_FIRST;) {
        uint32_t from = split->reached_by[rank];
        if (takes[from] < some) some = takes[from];
        rank = split_tokens_rank_of(split, from);
    }
    split->loads[end] += some;
    uint32_t rank = end;
    while (split->reached_by[rank] != REACHED_FIRST) {
        uint32_t from = split->reached_by[rank];
        takes[slot_on(split, split->slot_to_expert[from], rank)] += some;
        takes[from] -= some;
        rank = split_tokens_rank_of(split, from);
    }
    takes[slot_on(split, expert, rank)] += some;
    return some;
}

uint32_t split_tokens(struct split_tokens *split, const uint32_t *counts, uint32_t *takes_out) {
    memset(takes_out, 0, split->slot_count * sizeof *takes_out);
    place_single(split, counts, takes_out);
    uint32_t level = first_level(split, counts);
    for (uint32_t e = 0; e < split->expert_count; e++) {
        if (replicas_of(split, e) == 1) continue;
        uint32_t left = fill(split, e, counts[e], level, takes_out);
        while (left > 0) {
            uint32_t reached = 0;
            uint32_t end = find_path(split, e, level, takes_out, &reached);
            if (end < split->rank_count) {
                left -= move_along_path(split, e, end, left, level, takes_out);
                continue;
            }
            uint64_t load = left; /* no path: the reached ranks (Z of split_tokens.h) raise T */
            for (uint32_t i = 0; i < reached; i++)
                load += split->loads[split->queue[i]];
            check(reached > 0); /* the search begins at the ranks that hold the expert */
            level = (uint32_t)divide_up(load, reached);
        }
    }
    return level;
}
