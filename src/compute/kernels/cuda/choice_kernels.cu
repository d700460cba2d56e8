/* SPDX-License-Identifier: Apache-2.0
 * A block takes a row. Of experts, a thread takes one and counts who stands before it: as many
 * steps as there are experts, and no order among threads matters. What the twin sums in ascending
 * order one thread sums: the softmax's 160 experts of V2, and the weights of those chosen.
 */
#include "compute/kernels/cuda/choice_kernels.h"

#include "compute/kernels/cuda/live_rows.cuh"

#define THREADS 256u
#define WARPS (THREADS / GPU_WARP)

struct experts_job {
    struct choice_rule rule;
    const float *logits, *bias;
    size_t stride;
    uint32_t *experts;
    float *weights;
    struct live_rows live;
};

/* A row's values in shared memory. */
struct experts_room {
    float *scores, *choices, *groups, *chosen; /* [experts], [experts], [groups], [per_token] */
    uint32_t *taken;                           /* [experts] */
    float *mark;
};

GPU_DEVICE struct experts_room experts_room(const struct choice_rule *rule) {
    struct experts_room room;
    room.mark = (float *)gpu_shared();
    room.scores = room.mark + 4;
    room.choices = room.scores + rule->experts;
    room.groups = room.choices + rule->experts;
    room.chosen = room.groups + rule->groups;
    room.taken = (uint32_t *)(room.chosen + rule->per_token);
    return room;
}

/* Own scores: sigmoid, or softmax. */
GPU_DEVICE void score(const struct choice_rule *rule, const float *logits,
                      const struct experts_room *room) {
    if (!rule->softmax) {
        for (uint32_t e = gpu_thread(); e < rule->experts; e += THREADS)
            room->scores[e] = gpu_divide(1.0f, 1.0f + gpu_exp(-logits[e]));
        return;
    }
    if (gpu_thread() == 0) {
        float largest = logits[0];
        for (uint32_t e = 1; e < rule->experts; e++)
            largest = logits[e] > largest ? logits[e] : largest;
        *room->mark = largest;
    }
    gpu_sync();
    for (uint32_t e = gpu_thread(); e < rule->experts; e += THREADS)
        room->scores[e] = gpu_exp(logits[e] - *room->mark);
    gpu_sync();
    if (gpu_thread() == 0) {
        float sum = 0;
        for (uint32_t e = 0; e < rule->experts; e++)
            sum = sum + room->scores[e];
        *room->mark = sum;
    }
    gpu_sync();
    for (uint32_t e = gpu_thread(); e < rule->experts; e += THREADS)
        room->scores[e] = gpu_divide(room->scores[e], *room->mark);
}

/* How many of values[count] are taken before number `own`: larger, or equal and earlier. */
GPU_DEVICE uint32_t place_of(const float *values, uint32_t count, uint32_t own) {
    uint32_t before = 0;
    for (uint32_t i = 0; i < count; i++)
        before += values[i] > values[own] || (values[i] == values[own] && i < own);
    return before;
}

GPU_DEVICE float group_score(const float *choices, uint32_t count, bool two_largest) {
    float first = gpu_float(0xFF800000u), second = first;
    for (uint32_t e = 0; e < count; e++) {
        if (choices[e] > first) {
            second = first;
            first = choices[e];
        } else if (choices[e] > second) {
            second = choices[e];
        }
    }
    return two_largest && count > 1 ? first + second : first;
}

/* Choices of groups that are not kept become -infinity. */
GPU_DEVICE void drop_groups(const struct choice_rule *rule, const struct experts_room *room) {
    uint32_t size = rule->experts / rule->groups;
    for (uint32_t g = gpu_thread(); g < rule->groups; g += THREADS)
        room->groups[g] = group_score(room->choices + g * size, size, rule->two_largest);
    gpu_sync();
    for (uint32_t e = gpu_thread(); e < rule->experts; e += THREADS)
        if (place_of(room->groups, rule->groups, e / size) >= rule->groups_kept)
            room->choices[e] = gpu_float(0xFF800000u);
    gpu_sync();
}

/* Weights of the chosen, by one thread for each. */
GPU_DEVICE void weigh(const struct choice_rule *rule, const struct experts_room *room,
                      float *weights) {
    float sum = 0;
    if (gpu_thread() >= rule->per_token) return;
    for (uint32_t i = 0; i < rule->per_token; i++)
        sum = sum + room->chosen[i];
    float weight = room->chosen[gpu_thread()];
    if (rule->normalizes) weight = gpu_divide(weight, sum + 1e-20f);
    weights[gpu_thread()] = weight * rule->scaling;
}

GPU_KERNEL(THREADS) choice_experts(struct experts_job job) {
    const struct choice_rule *rule = &job.rule;
    struct experts_room room = experts_room(rule);
    size_t row = gpu_block();
    if (!is_there(&job.live, gpu_block())) return;
    score(rule, job.logits + row * job.stride, &room);
    for (uint32_t e = gpu_thread(); e < rule->experts; e += THREADS)
        room.choices[e] = job.bias ? room.scores[e] + job.bias[e] : room.scores[e];
    gpu_sync();
    if (rule->groups_kept) drop_groups(rule, &room);
    for (uint32_t e = gpu_thread(); e < rule->experts; e += THREADS)
        room.taken[e] = place_of(room.choices, rule->experts, e) < rule->per_token;
    gpu_sync();
    for (uint32_t e = gpu_thread(); e < rule->experts; e += THREADS) {
        uint32_t at = 0;
        if (!room.taken[e]) continue;
        for (uint32_t i = 0; i < e; i++)
            at += room.taken[i];
        job.experts[row * rule->per_token + at] = e;
        room.chosen[at] = room.scores[e];
    }
    gpu_sync();
    weigh(rule, &room, job.weights + row * rule->per_token);
}

void choice_kernels_experts(void *stream, const struct choice_rule *rule, const float *logits,
                            size_t stride, const float *bias, uint32_t *experts, float *weights,
                            uint32_t rows, const struct live_rows *live) {
    struct experts_job job = {*rule, logits, bias, stride, experts, weights, live_rows_of(live)};
    size_t words = 4 + 3 * (size_t)rule->experts + rule->groups + rule->per_token;
    struct gpu_shape shape = {rows, 1, THREADS, words * sizeof(float)};
    if (rows) gpu_launch("choice_experts", choice_experts, shape, stream, job);
}

/* ---- pairs by slot ---- */

/* Ones of a word. */
GPU_DEVICE uint32_t count_bits(uint32_t word) {
    word = word - (word >> 1 & 0x55555555u);
    word = (word & 0x33333333u) + (word >> 2 & 0x33333333u);
    return ((word + (word >> 4)) & 0x0F0F0F0Fu) * 0x01010101u >> 24;
}

GPU_DEVICE uint32_t warp_sum(uint32_t value) {
    for (uint32_t apart = GPU_WARP / 2; apart; apart /= 2)
        value = value + gpu_lane_value(value, gpu_thread() % GPU_WARP ^ apart);
    return value;
}

/* A block takes a slot: counts the pairs before its own, then gives its own their rows, a pair a
 * thread. */
GPU_KERNEL(THREADS) choice_sort(struct choice_pairs job) {
    uint32_t *before = (uint32_t *)gpu_shared(), *own = before + WARPS, *marks = own + WARPS;
    uint32_t slot = gpu_block(), thread = gpu_thread();
    uint32_t pairs = rows_there(&job.live, job.tokens) * job.per_token;
    uint32_t warp = thread / GPU_WARP, lane = thread % GPU_WARP, less = 0, equal = 0;
    for (uint32_t pair = thread; pair < pairs; pair += THREADS) {
        less += job.slots[pair] < slot;
        equal += job.slots[pair] == slot;
    }
    less = warp_sum(less);
    equal = warp_sum(equal);
    if (lane == 0) before[warp] = less;
    if (lane == 0) own[warp] = equal;
    gpu_sync();
    struct row_group group = {0, 0, slot};
    for (uint32_t i = 0; i < WARPS; i++) {
        group.first_row += before[i];
        group.row_count += own[i];
    }
    if (thread == 0) job.groups[slot] = group;
    if (thread == 0) job.slot_tokens[slot] += group.row_count;
    uint32_t row = group.first_row, end = group.first_row + group.row_count;
    for (uint32_t first = 0; first < pairs && row < end; first += THREADS) {
        uint32_t pair = first + thread, at = row;
        bool mine = pair < pairs && job.slots[pair] == slot;
        uint32_t votes = gpu_vote(mine);
        if (lane == 0) marks[warp] = count_bits(votes);
        gpu_sync();
        for (uint32_t i = 0; i < WARPS; i++) {
            if (i < warp) at += marks[i];
            row += marks[i];
        }
        at += count_bits(votes & ((1u << lane) - 1));
        if (mine) job.pair_row[pair] = at;
        if (mine) job.row_token[at] = pair / job.per_token;
        gpu_sync();
    }
}

void choice_kernels_sort(void *stream, const struct choice_pairs *pairs, uint32_t slots) {
    struct gpu_shape shape = {slots, 1, THREADS, 3 * WARPS * sizeof(uint32_t)};
    if (slots && pairs->tokens) gpu_launch("choice_sort", choice_sort, shape, stream, *pairs);
}
