/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/exchange/split_tokens.h"

#include <stdbool.h>
#include <string.h>

#include "base/check.h"

#define NOT_REACHED UINT32_MAX
#define REACHED_FIRST (UINT32_MAX - 1) /* by the expert whose tokens look for a place */

static size_t aligned(size_t bytes) {
    return (bytes + 7) & ~(size_t)7;
}

size_t split_tokens_bytes(uint32_t expert_count, uint32_t slot_count, uint32_t rank_count) {
    return aligned((expert_count + 1) * sizeof(uint32_t)) + aligned(slot_count * sizeof(uint16_t)) +
           2 * aligned(rank_count * sizeof(uint32_t)) + aligned(rank_count * sizeof(uint16_t));
}

static void *cut(char **at, size_t bytes) {
    void *start = *at;
    *at += aligned(bytes);
    return start;
}

void split_tokens_open(struct split_tokens *split, uint32_t expert_count, uint32_t slot_count,
                       uint32_t rank_count, const uint16_t *slot_to_expert, void *memory) {
    char *at = memory;
    check(rank_count > 0 && slot_count % rank_count == 0 && slot_count < UINT16_MAX);
    *split = (struct split_tokens){.expert_count = expert_count,
                                   .slot_count = slot_count,
                                   .rank_count = rank_count,
                                   .room = slot_count / rank_count,
                                   .slot_to_expert = slot_to_expert};
    split->firsts = cut(&at, (expert_count + 1) * sizeof *split->firsts);
    split->slots = cut(&at, slot_count * sizeof *split->slots);
    split->loads = cut(&at, rank_count * sizeof *split->loads);
    split->reached_by = cut(&at, rank_count * sizeof *split->reached_by);
    split->queue = cut(&at, rank_count * sizeof *split->queue);
    memset(split->firsts, 0, (expert_count + 1) * sizeof *split->firsts);
    for (uint32_t slot = 0; slot < slot_count; slot++) {
        if (slot_to_expert[slot] == SPLIT_TOKENS_EMPTY) continue;
        check(slot_to_expert[slot] < expert_count);
        split->firsts[slot_to_expert[slot]]++;
    }
    for (uint32_t e = 0, sum = 0; e <= expert_count; e++) { /* firsts: from counts to ends */
        check(e == expert_count || split->firsts[e] > 0);
        sum += split->firsts[e];
        split->firsts[e] = sum;
    }
    for (uint32_t slot = slot_count; slot-- > 0;) /* firsts: counted down to the beginnings */
        if (slot_to_expert[slot] != SPLIT_TOKENS_EMPTY)
            split->slots[--split->firsts[slot_to_expert[slot]]] = (uint16_t)slot;
}

static uint32_t replicas_of(const struct split_tokens *split, uint32_t expert) {
    return split->firsts[expert + 1] - split->firsts[expert];
}

static uint32_t divided_up(uint64_t amount, uint32_t by) {
    check(by > 0);
    return (uint32_t)((amount + by - 1) / by);
}

/* Places the tokens of experts with one replica. Returns the least level that the average, any rank
 * and any expert's own ranks allow. */
static uint32_t place_single(struct split_tokens *split, const uint32_t *counts, uint32_t *takes) {
    uint64_t total = 0;
    uint32_t level = 0;
    memset(split->loads, 0, split->rank_count * sizeof *split->loads);
    for (uint32_t e = 0; e < split->expert_count; e++) {
        uint32_t slot = split->slots[split->firsts[e]];
        total += counts[e];
        if (replicas_of(split, e) > 1) continue;
        takes[slot] = counts[e];
        split->loads[slot / split->room] += counts[e];
    }
    check(total <= UINT32_MAX);
    level = divided_up(total, split->rank_count);
    for (uint32_t rank = 0; rank < split->rank_count; rank++)
        if (split->loads[rank] > level) level = split->loads[rank];
    for (uint32_t e = 0; e < split->expert_count; e++) {
        uint64_t sum = counts[e];
        uint32_t replicas = replicas_of(split, e);
        if (replicas == 1) continue;
        for (uint32_t i = split->firsts[e]; i < split->firsts[e + 1]; i++)
            sum += split->loads[split->slots[i] / split->room];
        if (sum > (uint64_t)level * replicas) level = divided_up(sum, replicas);
    }
    return level;
}

/* Places as many of the expert's tokens as its ranks take without rising above the level. Returns
 * how many are left. */
static uint32_t fill(struct split_tokens *split, uint32_t expert, uint32_t tokens, uint32_t level,
                     uint32_t *takes) {
    for (uint32_t i = split->firsts[expert]; i < split->firsts[expert + 1]; i++) {
        uint32_t *load = &split->loads[split->slots[i] / split->room];
        uint32_t some = level - *load < tokens ? level - *load : tokens;
        takes[split->slots[i]] += some;
        *load += some;
        tokens -= some;
    }
    return tokens;
}

static void reach(struct split_tokens *split, uint32_t expert, uint32_t by, uint32_t *count) {
    for (uint32_t i = split->firsts[expert]; i < split->firsts[expert + 1]; i++) {
        uint32_t rank = split->slots[i] / split->room;
        if (split->reached_by[rank] != NOT_REACHED) continue;
        split->reached_by[rank] = by;
        split->queue[(*count)++] = (uint16_t)rank;
    }
}

/* Finds a rank below the level that the expert's tokens reach, others' tokens making way; the rank
 * count if there is none, and the ranks that are reached are then queue[0..*reached_out). */
static uint32_t find_way(struct split_tokens *split, uint32_t expert, uint32_t level,
                         const uint32_t *takes, uint32_t *reached_out) {
    uint32_t count = 0;
    memset(split->reached_by, 0xFF, split->rank_count * sizeof *split->reached_by);
    reach(split, expert, REACHED_FIRST, &count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rank = split->queue[i];
        if (split->loads[rank] < level) return rank;
        for (uint32_t slot = rank * split->room; slot < (rank + 1) * split->room; slot++)
            if (takes[slot] > 0 && replicas_of(split, split->slot_to_expert[slot]) > 1)
                reach(split, split->slot_to_expert[slot], slot, &count);
    }
    *reached_out = count;
    return split->rank_count;
}

static uint32_t slot_on(const struct split_tokens *split, uint32_t expert, uint32_t rank) {
    uint32_t at = split->firsts[expert];
    while (split->slots[at] / split->room != rank)
        at++;
    return split->slots[at];
}

/* Sends up to `tokens` of the expert's on the way to rank `end`; every other rank on it keeps its
 * load. Returns how many went. */
static uint32_t push(struct split_tokens *split, uint32_t expert, uint32_t end, uint32_t tokens,
                     uint32_t level, uint32_t *takes) {
    uint32_t some = level - split->loads[end] < tokens ? level - split->loads[end] : tokens;
    for (uint32_t rank = end; split->reached_by[rank] != REACHED_FIRST;) {
        uint32_t from = split->reached_by[rank];
        if (takes[from] < some) some = takes[from];
        rank = from / split->room;
    }
    split->loads[end] += some;
    uint32_t rank = end;
    while (split->reached_by[rank] != REACHED_FIRST) {
        uint32_t from = split->reached_by[rank];
        takes[slot_on(split, split->slot_to_expert[from], rank)] += some;
        takes[from] -= some;
        rank = from / split->room;
    }
    takes[slot_on(split, expert, rank)] += some;
    return some;
}

uint32_t split_tokens(struct split_tokens *split, const uint32_t *counts, uint32_t *takes_out) {
    memset(takes_out, 0, split->slot_count * sizeof *takes_out);
    uint32_t level = place_single(split, counts, takes_out);
    for (uint32_t e = 0; e < split->expert_count; e++) {
        if (replicas_of(split, e) == 1) continue;
        uint32_t left = fill(split, e, counts[e], level, takes_out);
        while (left > 0) {
            uint32_t reached = 0;
            uint32_t end = find_way(split, e, level, takes_out, &reached);
            if (end < split->rank_count) {
                left -= push(split, e, end, left, level, takes_out);
                continue;
            }
            uint64_t load = left;
            for (uint32_t i = 0; i < reached; i++)
                load += split->loads[split->queue[i]];
            level = divided_up(load, reached);
        }
    }
    return level;
}
