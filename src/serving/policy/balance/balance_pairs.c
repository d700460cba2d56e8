/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/balance/balance_pairs.h"

#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "serving/policy/balance/balance_counts.h"

#define BINS 64      /* values of t: b * T / 2 / BINS, b = 0..BINS - 1 */
#define CHANGE 8     /* limit of the change of a bin's surplus; larger changes count as this */
#define LACK_MAX 511 /* limit of a bin's lack, so that 64 lacks fit into 16 bits */
#define ROUNDS_MAX 12
#define NEAR_ENOUGH 128 /* stop when the largest load exceeds the target by less than 1/128 */
#define MOVES_MAX 64    /* in one round: enough to move every replica */

/* The effect of an item's share: it adds `sign` to the surplus of all bins from `first` on. */
struct effect {
    int8_t first, sign;
};

struct pairs {
    struct balance_state *state;
    const uint16_t *order;
    uint64_t limit, inverse; /* T; 2 * BINS * 2^32 / T */
    int16_t surplus[BINS];   /* light items minus heavy ones */
    /* lacks[b][CHANGE + v]: sum of the lacks of the bins before b if v were added to each */
    int16_t lacks[BINS + 1][2 * CHANGE];
    /* effect of each expert's items with its present count, and with one more */
    struct effect now[LIMIT_EXPERTS], more[LIMIT_EXPERTS];
    uint16_t split[LIMIT_EXPERTS]; /* experts with several replicas */
    uint32_t split_count;
    uint16_t best_counts[LIMIT_EXPERTS];
    uint64_t best;
};

static int bin_of(const struct pairs *pairs, uint64_t share) {
    return (int)((share >> 20) * pairs->inverse >> 32);
}

static struct effect effect_of(const struct pairs *pairs, uint64_t share) {
    if (share >= pairs->limit) return (struct effect){0, -1};
    bool light = 2 * share <= pairs->limit;
    int first = bin_of(pairs, light ? share : pairs->limit - share) + 1;
    return (struct effect){(int8_t)(first < BINS ? first : BINS), light ? 1 : -1};
}

static void add_effect(struct pairs *pairs, struct effect effect, int items) {
    for (int b = effect.first; b < BINS; b++)
        pairs->surplus[b] = (int16_t)(pairs->surplus[b] + items * effect.sign);
}

static uint64_t balance_pairs_share_of(const struct pairs *pairs, uint32_t expert, uint32_t count) {
    uint64_t load = pairs->state->loads[expert];
    return count <= 1 ? load : count == 2 ? load / 2 : load / count;
}

static void sum_lacks(struct pairs *pairs) {
    static const int16_t below[2 * CHANGE] = {8, 7,  6,  5,  4,  3,  2,  1,
                                              0, -1, -2, -3, -4, -5, -6, -7};
    memset(pairs->lacks[0], 0, sizeof pairs->lacks[0]);
    for (int b = 0; b < BINS; b++) {
        const int16_t *sums = pairs->lacks[b];
        int16_t *next = pairs->lacks[b + 1], surplus = pairs->surplus[b];
        for (int v = 0; v < 2 * CHANGE; v++) {
            int16_t lack = (int16_t)(below[v] - surplus);
            lack = lack > 0 ? lack : 0;
            lack = lack < LACK_MAX ? lack : LACK_MAX;
            next[v] = (int16_t)(sums[v] + lack);
        }
    }
}

static int clamped(int value) {
    return value > CHANGE - 1 ? CHANGE - 1 : value < -CHANGE ? -CHANGE : value;
}

/* The lack of all bins if `gone` items of one effect are replaced by `come` items of another. */
static uint32_t lack_after(const struct pairs *pairs, struct effect old, int gone,
                           struct effect new, int come) {
    int a = -gone * old.sign, b = come * new.sign;
    bool old_first = old.first <= new.first;
    int low = old_first ? old.first : new.first, high = old_first ? new.first : old.first;
    int one = CHANGE + clamped(old_first ? a : b), both = CHANGE + clamped(a + b);
    int lack = pairs->lacks[low][CHANGE] + pairs->lacks[high][one] - pairs->lacks[low][one] +
               pairs->lacks[BINS][both] - pairs->lacks[high][both];
    return (uint32_t)lack;
}

static void balance_pairs_set_count(struct pairs *pairs, uint32_t expert, uint32_t count) {
    struct balance_state *state = pairs->state;
    add_effect(pairs, pairs->now[expert], -(int)state->counts[expert]);
    state->counts[expert] = (uint16_t)count;
    state->shares[expert] = balance_pairs_share_of(pairs, expert, count);
    pairs->now[expert] = effect_of(pairs, state->shares[expert]);
    pairs->more[expert] = effect_of(pairs, balance_pairs_share_of(pairs, expert, count + 1));
    add_effect(pairs, pairs->now[expert], (int)count);
}

static void set_limit(struct pairs *pairs, uint64_t limit) {
    const struct balance_state *state = pairs->state;
    pairs->limit = limit;
    pairs->inverse = ((uint64_t)2 * BINS << 32) / ((limit >> 20) + 1);
    memset(pairs->surplus, 0, sizeof pairs->surplus);
    int16_t events[BINS + 1] = {0};
    /* access is sequential, so that branches are predictable */
    for (uint32_t i = 0; i < state->expert_count; i++) {
        uint32_t e = pairs->order[i];
        pairs->now[e] = effect_of(pairs, state->shares[e]);
        pairs->more[e] = effect_of(pairs, balance_pairs_share_of(pairs, e, state->counts[e] + 1u));
        events[pairs->now[e].first] =
            (int16_t)(events[pairs->now[e].first] + state->counts[e] * pairs->now[e].sign);
    }
    int sum = 0;
    for (int b = 0; b < BINS; b++)
        pairs->surplus[b] = (int16_t)(sum += events[b]);
}

static void list_split(struct pairs *pairs) {
    const struct balance_state *state = pairs->state;
    pairs->split_count = 0;
    for (uint32_t e = 0; e < state->expert_count; e++) {
        pairs->split[pairs->split_count] = (uint16_t)e;
        pairs->split_count += state->counts[e] > 1;
    }
}

/* The expert that should get another replica, and the resulting lack of all bins. */
static uint32_t best_gain(const struct pairs *pairs, uint32_t *lack_out) {
    const struct balance_state *state = pairs->state;
    uint32_t best = 0, least = UINT32_MAX;
    for (uint32_t i = 0; i < state->expert_count; i++) {
        uint32_t e = pairs->order[i];
        uint32_t lack = lack_after(pairs, pairs->now[e], state->counts[e], pairs->more[e],
                                   state->counts[e] + 1);
        if (lack >= least || state->counts[e] >= state->rank_count) continue;
        least = lack;
        best = e;
    }
    *lack_out = least;
    return best;
}

static uint32_t best_loss(const struct pairs *pairs, uint32_t *lack_out) {
    const struct balance_state *state = pairs->state;
    uint32_t best = 0, least = UINT32_MAX;
    for (uint32_t i = 0; i < pairs->split_count; i++) {
        uint32_t e = pairs->split[i], count = state->counts[e];
        if (count < 2) continue;
        struct effect less = effect_of(pairs, balance_pairs_share_of(pairs, e, count - 1));
        uint32_t lack = lack_after(pairs, pairs->now[e], (int)count, less, (int)count - 1);
        if (lack >= least) continue;
        least = lack;
        best = e;
    }
    *lack_out = least;
    return best;
}

/* Moves one replica from one expert to another. Returns false, without changes, if that does not
 * reduce the lack. `gain_first`: choose the receiving expert first, otherwise the giving one. */
static bool balance_pairs_move(struct pairs *pairs, bool gain_first, uint32_t lack) {
    const uint16_t *counts = pairs->state->counts;
    int change = gain_first ? 1 : -1;
    uint32_t after;
    if (!pairs->split_count) return false;
    uint32_t first = gain_first ? best_gain(pairs, &after) : best_loss(pairs, &after);
    balance_pairs_set_count(pairs, first, (uint32_t)(counts[first] + change));
    sum_lacks(pairs);
    uint32_t second = gain_first ? best_loss(pairs, &after) : best_gain(pairs, &after);
    bool better = after < lack;
    if (!better) second = first;
    balance_pairs_set_count(pairs, second, (uint32_t)(counts[second] - change));
    if (better) list_split(pairs);
    sum_lacks(pairs);
    return better;
}

static uint32_t lack_now(const struct pairs *pairs) {
    return (uint32_t)pairs->lacks[BINS][CHANGE];
}

/* Returns the largest load with the present counts. Stores the counts if it is the smallest so
 * far. */
static uint64_t balance_pairs_measure(struct pairs *pairs) {
    const struct balance_state *state = pairs->state;
    uint64_t most = 0;
    balance_counts_list(state, pairs->order, state->expert_count, state->list);
    for (uint32_t i = 0, j = state->slot_count - 1; i < j; i++, j--) {
        uint64_t load = state->shares[state->list[i]] + state->shares[state->list[j]];
        if (load > most) most = load;
    }
    if (most < pairs->best) {
        pairs->best = most;
        memcpy(pairs->best_counts, state->counts, state->expert_count * sizeof *state->counts);
    }
    return most;
}

static void restore(struct pairs *pairs) {
    struct balance_state *state = pairs->state;
    for (uint32_t e = 0; e < state->expert_count; e++) {
        state->counts[e] = pairs->best_counts[e];
        state->shares[e] = balance_pairs_share_of(pairs, e, state->counts[e]);
    }
}

/* Moves replicas until there is no lack or no move helps. Returns the resulting largest load. */
static uint64_t balance_pairs_descend(struct pairs *pairs) {
    bool gain_first = true;
    list_split(pairs);
    sum_lacks(pairs);
    for (uint32_t moves = 0; lack_now(pairs) > 0 && moves < MOVES_MAX; moves++) {
        if (balance_pairs_move(pairs, gain_first, lack_now(pairs))) continue;
        if (!gain_first) break;
        gain_first = false;
    }
    return balance_pairs_measure(pairs);
}

/* Bisects between the smallest load known to be possible and one that seems impossible. */
static void search(struct pairs *pairs, uint64_t low) {
    for (uint32_t round = 0; round < ROUNDS_MAX && pairs->best > low + low / NEAR_ENOUGH; round++) {
        set_limit(pairs, low + (pairs->best - low) / 2);
        if (balance_pairs_descend(pairs) > pairs->limit) low = pairs->limit;
        restore(pairs);
    }
}

void balance_pairs_place(struct balance_state *state, const uint16_t *order, uint64_t target) {
    struct pairs pairs = {.state = state, .order = order, .best = UINT64_MAX};
    check(state->room == 2 && state->expert_count <= LIMIT_EXPERTS);
    balance_pairs_measure(&pairs);
    search(&pairs, target);
    restore(&pairs);
    balance_counts_list(state, order, state->expert_count, state->list);
    for (uint32_t rank = 0; rank < state->rank_count; rank++) {
        state->experts[2 * rank] = state->list[rank];
        state->experts[2 * rank + 1] = state->list[state->slot_count - 1 - rank];
    }
    balance_state_recount(state);
}
