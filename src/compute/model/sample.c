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

#include "base/random.h"
#include "compute/kernels/kernels.h"

/* Logits with an order: NaN comes last, infinities are the largest finite numbers. */
static float clean(float logit) {
    if (logit != logit) return -FLT_MAX;
    return fminf(fmaxf(logit, -FLT_MAX), FLT_MAX);
}

static uint32_t greedy(const float *logits, uint32_t vocab) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < vocab; i++)
        if (clean(logits[i]) > clean(logits[best])) best = i;
    return best;
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
 * taken stands in heap[vocab - 1 - i]. */
static void take_first(const float *logits, uint32_t *heap, uint32_t count) {
    uint32_t id = heap[0];
    heap[0] = heap[count - 1];
    heap[count - 1] = id;
    sift_down(logits, heap, count - 1, 0);
}

/* Takes the candidates that min-p and top-k leave; returns how many, and their total weight. */
static uint32_t take_kept(const float *logits, const float *weights, uint32_t *heap, uint32_t vocab,
                          const struct sampling *sampling, double *total_out) {
    uint32_t limit = sampling->top_k && sampling->top_k < vocab ? sampling->top_k : vocab;
    uint32_t count = 0;
    *total_out = 0;
    /* Weights are relative to the likeliest token's, whose weight is 1: it always stays. */
    while (count < limit && (count == 0 || weights[heap[0]] >= sampling->min_p)) {
        take_first(logits, heap, vocab - count);
        *total_out += (double)weights[heap[vocab - 1 - count++]];
    }
    return count;
}

uint32_t sample_token(const float *logits, uint32_t vocab, const struct sampling *sampling,
                      uint32_t output_position, float *scratch) {
    uint32_t best = greedy(logits, vocab);
    if (!(sampling->temperature > 0)) return best;
    float *weights = scratch; /* by id: exp((logit - largest) / temperature) */
    uint32_t *heap = (uint32_t *)(void *)(scratch + vocab);
    float largest = clean(logits[best]);
    double total = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        weights[i] = kernels_exp((clean(logits[i]) - largest) / sampling->temperature);
        total += (double)weights[i];
        heap[i] = i;
    }
    for (uint32_t i = vocab / 2; i-- > 0;)
        sift_down(logits, heap, vocab, i);

    bool cuts = (sampling->top_k && sampling->top_k < vocab) || sampling->min_p > 0;
    double uniform = random_uniform(sampling->seed, sampling->choice, output_position);
    double top_p = sampling->top_p < 1 ? fmax((double)sampling->top_p, 0) : 1.0;
    uint32_t count = 0; /* candidates taken */
    double kept = 0;
    if (cuts) { /* top-p is over what min-p and top-k leave */
        uint32_t left = take_kept(logits, weights, heap, vocab, sampling, &total);
        while (count < left && kept < top_p * total)
            kept += (double)weights[heap[vocab - 1 - count++]];
    } else {
        while (count < vocab && (top_p < 1 ? kept < top_p * total : kept <= uniform * total)) {
            take_first(logits, heap, vocab - count);
            kept += (double)weights[heap[vocab - 1 - count++]];
        }
        if (top_p == 1.0) return count ? heap[vocab - count] : best; /* the last one taken */
    }
    double target = uniform * kept, sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = heap[vocab - 1 - i];
        sum += (double)weights[id];
        if (sum > target) return id;
    }
    return best;
}
