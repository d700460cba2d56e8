/* SPDX-License-Identifier: Apache-2.0
 * Choosing the next token. Greedy takes the largest logit. Otherwise candidates are taken in
 * descending logit order, ties by ascending id, so that min-p, top-k and top-p each keep a first
 * part of them (top-p: the smallest run whose share of what the others left reaches top_p), and one
 * number from Philox picks among the kept.
 *
 * A heap yields the candidates in order as they are needed, so a short nucleus out of 129,280
 * tokens costs one pass, not a sort. Exponentials come from kernels_exp, which is the same on every
 * CPU.
 */
#include "compute/model/sample.h"

#include <float.h>
#include <math.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/random.h"
#include "compute/kernels/kernels.h"

/* Logits with an order: NaN comes last, infinities are the largest finite numbers. */
static float clean(float logit) {
    if (logit != logit) return -FLT_MAX;
    return fminf(fmaxf(logit, -FLT_MAX), FLT_MAX);
}

/* The mask's first token from `from` on; without a mask, that one. Not below vocab: there is none. */
static inline uint32_t next_of(const uint64_t *mask, uint32_t vocab, uint32_t from) {
    if (!mask || from >= vocab) return from;
    uint32_t word = from / 64;
    uint64_t left = mask[word] >> from % 64 << from % 64;
    while (!left && ++word < divide_up(vocab, 64))
        left = mask[word];
    return left ? word * 64 + (uint32_t)__builtin_ctzll(left) : vocab;
}

/* Not below vocab: the mask has none. */
static uint32_t greedy(const float *logits, uint32_t vocab, const uint64_t *mask) {
    uint32_t best = next_of(mask, vocab, 0);
    for (uint32_t i = next_of(mask, vocab, best + 1); i < vocab; i = next_of(mask, vocab, i + 1))
        if (clean(logits[i]) > clean(logits[best])) best = i;
    return best;
}

bool sample_leaves_any(const float *logits, uint32_t vocab, const uint64_t *mask) {
    uint32_t best = greedy(logits, vocab, mask);
    return best < vocab && logits[best] > -INFINITY;
}

static bool comes_before(const float *logits, uint32_t a, uint32_t b) {
    float logit_a = clean(logits[a]), logit_b = clean(logits[b]);
    return logit_a > logit_b || (logit_a == logit_b && a < b);
}

static void sift_down(const float *logits, uint32_t *heap, uint32_t count, uint32_t at) {
    for (;;) {
        uint32_t first = at, left = 2 * at + 1, right = left + 1;
        if (left < count && comes_before(logits, heap[left], heap[first])) first = left;
        if (right < count && comes_before(logits, heap[right], heap[first])) first = right;
        if (first == at) return;
        uint32_t id = heap[at];
        heap[at] = heap[first];
        heap[first] = id;
        at = first;
    }
}

/* Takes the first candidate off the heap and leaves it behind the heap's end, so that the i-th one
 * taken of n stands in heap[n - 1 - i]. */
static void take_first(const float *logits, uint32_t *heap, uint32_t count) {
    uint32_t id = heap[0];
    heap[0] = heap[count - 1];
    heap[count - 1] = id;
    sift_down(logits, heap, count - 1, 0);
}

/* Takes the candidates that min-p and top-k leave of `all`; returns how many, and their total
 * weight. */
static uint32_t take_kept(const float *logits, const float *weights, uint32_t *heap, uint32_t all,
                          const struct sampling *sampling, double *total_out) {
    uint32_t limit = sampling->top_k && sampling->top_k < all ? sampling->top_k : all;
    uint32_t count = 0;
    *total_out = 0;
    /* Weights are relative to the likeliest token's, whose weight is 1: it always stays. */
    while (count < limit && (count == 0 || weights[heap[0]] >= sampling->min_p)) {
        take_first(logits, heap, all - count);
        *total_out += (double)weights[heap[all - 1 - count++]];
    }
    return count;
}

/* One of the `all` candidates in `heap`, of which `best` is the likeliest. */
static uint32_t draw(const float *logits, const struct sampling *sampling, double uniform,
                     uint32_t best, float *weights, uint32_t *heap, uint32_t all) {
    float largest = clean(logits[best]);
    double total = 0;
    for (uint32_t i = 0; i < all; i++) {
        weights[heap[i]] = kernels_exp((clean(logits[heap[i]]) - largest) / sampling->temperature);
        total += (double)weights[heap[i]];
    }
    for (uint32_t i = all / 2; i-- > 0;)
        sift_down(logits, heap, all, i);

    bool cuts = (sampling->top_k && sampling->top_k < all) || sampling->min_p > 0;
    double top_p = sampling->top_p < 1 ? fmax((double)sampling->top_p, 0) : 1.0;
    uint32_t count = 0; /* candidates taken */
    double kept = 0;
    if (cuts) { /* top-p is over what min-p and top-k leave */
        uint32_t left = take_kept(logits, weights, heap, all, sampling, &total);
        while (count < left && kept < top_p * total)
            kept += (double)weights[heap[all - 1 - count++]];
    } else {
        while (count < all && (top_p < 1 ? kept < top_p * total : kept <= uniform * total)) {
            take_first(logits, heap, all - count);
            kept += (double)weights[heap[all - 1 - count++]];
        }
        if (top_p == 1.0) return count ? heap[all - count] : best; /* the last one taken */
    }
    double target = uniform * kept, sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = heap[all - 1 - i];
        sum += (double)weights[id];
        if (sum > target) return id;
    }
    return best;
}

uint32_t sample_token(const float *logits, uint32_t vocab, const struct sampling *sampling,
                      uint32_t output_position, const uint64_t *mask, float *scratch) {
    uint32_t best = greedy(logits, vocab, mask), all = 0;
    check(best < vocab);
    if (!(sampling->temperature > 0)) return best;
    float *weights = scratch; /* by id: exp((logit - largest) / temperature) */
    uint32_t *heap = (uint32_t *)(void *)(scratch + vocab);
    for (uint32_t i = next_of(mask, vocab, 0); i < vocab; i = next_of(mask, vocab, i + 1))
        heap[all++] = i;
    double uniform = random_uniform(sampling->seed, sampling->choice, output_position);
    return draw(logits, sampling, uniform, best, weights, heap, all);
}
