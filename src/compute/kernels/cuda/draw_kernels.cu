/* SPDX-License-Identifier: Apache-2.0
 * A block draws a row's token. Each of the row's tokens has a place: first by its logit, the
 * largest in front, then by its number. What top-k or top-p keeps and what is drawn at last are all
 * questions of one kind: behind which place do so many tokens stand, or so much weight? An answer
 * is found as a radix sort would, most significant digits first: a pass over the row counts tokens
 * and weights in bins of places, a scan finds the bin, and the next pass looks into that bin alone,
 * until it holds one token. Sums are integers, so they are the twin's, whatever the order of
 * additions.
 *
 * One set of bins, over all places that weigh anything, serves all questions; the finer ones are
 * filled anew. A row is read once for the likeliest token, once for these bins, mostly once for
 * each question, and once for the number of the token at the place that was drawn.
 */
#include "compute/kernels/cuda/draw_kernels.h"

#include "compute/kernels/cuda/gpu.cuh"

#define THREADS 512u
#define WARPS (THREADS / GPU_WARP)
#define BIN_BITS 11u
#define BINS (1u << BIN_BITS)
#define BINS_EACH (BINS / THREADS) /* of a thread, side by side */
#define TOKEN_BITS 20u             /* of a place: the token's number */
#define LOADS 4u                   /* of 16 bytes, that a thread has on their way */
#define LARGEST 0x7F7FFFFFu        /* bits of the largest finite float */

struct draw_job {
    const float *logits;
    const struct draw_rule *rules;
    uint32_t *to;
    size_t stride;
    uint32_t n;
};

struct bin_sums {
    uint64_t weight;
    uint32_t count;
};

/* Sums of tokens in each bin; a weight's lower half overflows into the upper one. */
struct bins {
    uint32_t low[BINS], high[BINS], count[BINS];
};

struct picked {
    struct bin_sums before, own;
    uint32_t bin;
};

struct room {
    struct bins first, finer;
    struct bin_sums of_warp[WARPS];
    uint64_t best_of_warp[WARPS];
    struct picked picked;
};

/* Places [first, last], one of them drawn for or cut at. */
struct stretch {
    uint64_t first, last;
};

/* The row from which the block draws. */
struct row {
    const float *logits;
    struct draw_rule rule;
    float largest;
    uint32_t n;
};

GPU_DEVICE struct bin_sums both(struct bin_sums a, struct bin_sums b) {
    struct bin_sums all = {a.weight + b.weight, a.count + b.count};
    return all;
}

GPU_DEVICE uint64_t lane_value64(uint64_t value, uint32_t lane) {
    uint64_t low = gpu_lane_value((uint32_t)value, lane);
    return (uint64_t)gpu_lane_value((uint32_t)(value >> 32), lane) << 32 | low;
}

/* ---- a logit ---- */

/* Not a number: the smallest; infinite: the largest that is finite; no minus zero. */
GPU_DEVICE float clean(float logit) {
    uint32_t bits = gpu_bits(logit), size = bits & 0x7FFFFFFFu, sign = bits - size;
    if (size > 0x7F800000u) return gpu_float(0x80000000u | LARGEST);
    if (size == 0) return 0;
    return gpu_float(sign | (size < LARGEST ? size : LARGEST));
}

/* Ascends where clean logits descend. */
GPU_DEVICE uint32_t order_of(float logit) {
    uint32_t bits = gpu_bits(logit);
    return bits & 0x80000000u ? bits : 0x7FFFFFFFu - bits;
}

GPU_DEVICE uint64_t place_of(float logit, uint32_t token) {
    return (uint64_t)order_of(logit) << TOKEN_BITS | token;
}

/* Units of its weight; 0: min-p takes the token away, or it counts nothing. */
GPU_DEVICE uint64_t weigh(const struct row *row, float logit) {
    float x = gpu_divide(logit - row->largest, row->rule.temperature);
    float weight = x < DRAW_LOWEST ? 0 : gpu_exp(x);
    return weight >= row->rule.min_p ? (uint64_t)(weight * DRAW_UNITS) : 0;
}

/* ---- a pass over the row ---- */

#define SOME (4 * LOADS)      /* logits of a thread in a step of a pass */
#define STEP (SOME * THREADS) /* of all threads */

struct some {
    struct gpu_words words[LOADS];
};

/* The i-th of a thread's tokens in the step that begins at `first`. */
GPU_DEVICE uint32_t token_of(uint32_t first, uint32_t i) {
    return first + 4 * (i / 4 * THREADS + gpu_thread()) + i % 4;
}

/* Those beyond the row mean nothing. */
GPU_DEVICE struct some load_some(const struct row *row, uint32_t first) {
    struct some some = {};
    GPU_UNROLL
    for (uint32_t i = 0; i < LOADS; i++) {
        uint32_t token = token_of(first, 4 * i);
        if (token < row->n) some.words[i] = gpu_load16(row->logits + token);
    }
    return some;
}

/* The i-th token's. */
GPU_DEVICE uint64_t place_in(const struct some *some, uint32_t first, uint32_t i) {
    return place_of(clean(gpu_float(some->words[i / 4].word[i % 4])), token_of(first, i));
}

/* Bit i: the i-th token's place is there. */
GPU_DEVICE uint32_t look_for(const struct row *row, uint32_t first, struct stretch of) {
    struct some some = load_some(row, first);
    uint32_t found = 0;
    GPU_UNROLL
    for (uint32_t i = 0; i < SOME; i++)
        if (token_of(first, i) < row->n &&
            place_in(&some, first, i) - of.first <= of.last - of.first)
            found |= 1u << i;
    return found;
}

GPU_DEVICE uint64_t first_of(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* The likeliest token's place, for all threads. */
GPU_DEVICE uint64_t find_best(struct room *room, const struct row *row) {
    uint64_t best = UINT64_MAX;
    for (uint32_t first = 0; first < row->n; first += STEP) {
        struct some some = load_some(row, first);
        GPU_UNROLL
        for (uint32_t i = 0; i < SOME; i++) {
            if (token_of(first, i) < row->n) best = first_of(best, place_in(&some, first, i));
        }
    }
    for (uint32_t apart = GPU_WARP / 2; apart; apart /= 2)
        best = first_of(best, lane_value64(best, gpu_thread() % GPU_WARP ^ apart));
    if (gpu_thread() % GPU_WARP == 0) room->best_of_warp[gpu_thread() / GPU_WARP] = best;
    gpu_sync();
    for (uint32_t i = 0; i < WARPS; i++)
        best = first_of(best, room->best_of_warp[i]);
    return best;
}

GPU_DEVICE void add(struct bins *bins, uint32_t bin, uint64_t weight) {
    uint32_t low = (uint32_t)weight, before = gpu_add(&bins->low[bin], low);
    uint32_t high = (uint32_t)(weight >> 32) + (before + low < before);
    if (high) gpu_add(&bins->high[bin], high);
    gpu_add(&bins->count[bin], 1);
}

/* The stretch's tokens, 2^shift places a bin. */
GPU_DEVICE void fill(struct bins *bins, const struct row *row, struct stretch of, uint32_t shift) {
    for (uint32_t i = gpu_thread(); i < BINS; i += THREADS)
        bins->low[i] = bins->high[i] = bins->count[i] = 0;
    gpu_sync();
    for (uint32_t first = 0; first < row->n; first += STEP) {
        uint32_t left = look_for(row, first, of);
        for (uint32_t i = 0; left; i++, left >>= 1) {
            if (!(left & 1)) continue;
            uint32_t token = token_of(first, i);
            float logit = clean(row->logits[token]);
            uint64_t weight = weigh(row, logit);
            if (weight) add(bins, (uint32_t)((place_of(logit, token) - of.first) >> shift), weight);
        }
    }
    gpu_sync();
}

/* The number of the only token there that weighs anything. */
GPU_DEVICE void report_token(const struct row *row, struct stretch of, uint32_t *to) {
    for (uint32_t first = 0; first < row->n; first += STEP) {
        uint32_t left = look_for(row, first, of);
        for (uint32_t i = 0; left; i++, left >>= 1)
            if (left & 1 && weigh(row, clean(row->logits[token_of(first, i)])))
                *to = token_of(first, i);
    }
}

/* ---- questions ---- */

GPU_DEVICE struct bin_sums sums_of(const struct bins *bins, uint32_t bin) {
    struct bin_sums sums = {(uint64_t)bins->high[bin] << 32, bins->count[bin]};
    sums.weight += bins->low[bin];
    return sums;
}

/* A thread's bins. */
GPU_DEVICE struct bin_sums own_sums(const struct bins *bins) {
    struct bin_sums own = {0, 0};
    for (uint32_t i = 0; i < BINS_EACH; i++)
        own = both(own, sums_of(bins, gpu_thread() * BINS_EACH + i));
    return own;
}

/* Returns the sums of the threads before this one; *all_out: of all threads. */
GPU_DEVICE struct bin_sums scan(struct room *room, struct bin_sums own, struct bin_sums *all_out) {
    uint32_t lane = gpu_thread() % GPU_WARP, warp = gpu_thread() / GPU_WARP;
    struct bin_sums upto = own, before = {0, 0}, all = {0, 0};
    for (uint32_t apart = 1; apart < GPU_WARP; apart *= 2) {
        struct bin_sums other;
        other.weight = lane_value64(upto.weight, (lane - apart) % GPU_WARP);
        other.count = gpu_lane_value(upto.count, (lane - apart) % GPU_WARP);
        if (lane >= apart) upto = both(upto, other);
    }
    if (lane == GPU_WARP - 1) room->of_warp[warp] = upto;
    gpu_sync();
    for (uint32_t i = 0; i < WARPS; i++) {
        if (i < warp) before = both(before, room->of_warp[i]);
        all = both(all, room->of_warp[i]);
    }
    gpu_sync();
    before.weight += upto.weight - own.weight;
    before.count += upto.count - own.count;
    *all_out = all;
    return before;
}

/* Whether so many tokens, or so much weight, is there: the goal that is not 0. */
GPU_DEVICE bool reaches(struct bin_sums sums, struct bin_sums goal) {
    return goal.count ? sums.count >= goal.count : sums.weight >= goal.weight;
}

/* The first bin with which all up to it reach the goal, behind `before`. */
GPU_DEVICE struct picked pick(struct room *room, const struct bins *bins, struct bin_sums before,
                              struct bin_sums goal) {
    struct bin_sums all;
    before = both(before, scan(room, own_sums(bins), &all));
    for (uint32_t i = 0; i < BINS_EACH; i++) {
        uint32_t bin = gpu_thread() * BINS_EACH + i;
        struct bin_sums own = sums_of(bins, bin), upto = both(before, own);
        if (!reaches(before, goal) && reaches(upto, goal)) {
            struct picked picked = {before, own, bin};
            room->picked = picked;
        }
        before = upto;
    }
    gpu_sync();
    return room->picked;
}

/* Bins of so many places hold the stretch. */
GPU_DEVICE uint32_t shift_of(struct stretch of) {
    uint32_t shift = 0;
    while ((of.last - of.first) >> shift >= BINS)
        shift++;
    return shift;
}

/* Finds the token with which all up to it reach the goal, and returns their sums. `of` is what
 * room->first holds; it becomes places of which that token's alone weighs anything. */
GPU_DEVICE struct bin_sums find(struct room *room, const struct row *row, struct stretch *of,
                                struct bin_sums goal) {
    struct bin_sums before = {0, 0};
    const struct bins *bins = &room->first;
    uint32_t shift = shift_of(*of);
    for (;;) {
        struct picked picked = pick(room, bins, before, goal);
        of->first += (uint64_t)picked.bin << shift;
        of->last = of->first + ((uint64_t)1 << shift) - 1;
        if (picked.own.count == 1 || shift == 0) return both(picked.before, picked.own);
        before = picked.before;
        shift = shift > BIN_BITS ? shift - BIN_BITS : 0;
        fill(&room->finer, row, *of, shift);
        bins = &room->finer;
    }
}

/* `share` of a sum, rounded up; 1 at least. */
GPU_DEVICE uint64_t share_of(uint64_t sum, float share) {
    double exact = (double)share * (double)sum;
    uint64_t whole = (uint64_t)exact;
    if ((double)whole < exact) whole++;
    return whole < 1 ? 1 : whole < sum ? whole : sum;
}

/* A point in a sum, below it. */
GPU_DEVICE uint64_t point_in(uint64_t sum, double uniform) {
    uint64_t point = (uint64_t)(uniform * (double)sum);
    return point < sum ? point : sum - 1;
}

/* Places from the likeliest token's on that may weigh anything. */
GPU_DEVICE struct stretch stretch_of(const struct row *row, uint64_t best) {
    float least = clean(row->largest + DRAW_LOWEST * row->rule.temperature);
    struct stretch of = {best, place_of(least, (1u << TOKEN_BITS) - 1)};
    return of;
}

enum question { TOP_K, TOP_P, DRAWN, QUESTIONS };

/* Behind which token: what is asked for of the sums that earlier cuts have kept. False: nothing is
 * cut. */
GPU_DEVICE bool ask(const struct draw_rule *rule, enum question question, struct bin_sums kept,
                    struct bin_sums *goal_out) {
    struct bin_sums goal = {0, 0};
    if (question == TOP_K) goal.count = rule->top_k;
    if (question == TOP_P) goal.weight = share_of(kept.weight, rule->top_p);
    if (question == DRAWN) goal.weight = point_in(kept.weight, rule->uniform) + 1;
    *goal_out = goal;
    if (question == TOP_K) return rule->top_k && rule->top_k < kept.count;
    return question == DRAWN || rule->top_p < 1;
}

GPU_DEVICE void draw(struct room *room, const struct row *row, uint64_t best, uint32_t *to) {
    const struct stretch whole = stretch_of(row, best);
    struct stretch of = whole;
    struct bin_sums kept, goal;
    fill(&room->first, row, whole, shift_of(whole));
    scan(room, own_sums(&room->first), &kept);
    for (uint32_t question = 0; question < QUESTIONS; question++) {
        if (!ask(&row->rule, (enum question)question, kept, &goal)) continue;
        of = whole;
        kept = find(room, row, &of, goal);
    }
    report_token(row, of, to);
}

GPU_KERNEL(THREADS) draw_tokens(struct draw_job job) {
    struct room *room = (struct room *)gpu_shared();
    struct row row = {job.logits + gpu_block() * job.stride, {}, 0, job.n};
    uint32_t *to = job.to + gpu_block();
    uint64_t best = find_best(room, &row);
    uint32_t likeliest = (uint32_t)best & ((1u << TOKEN_BITS) - 1);
    if (job.rules) row.rule = job.rules[gpu_block()];
    if (row.rule.temperature > 0) {
        row.largest = clean(row.logits[likeliest]);
        draw(room, &row, best, to);
    } else if (gpu_thread() == 0) {
        *to = likeliest;
    }
}

void draw_kernels_tokens(void *stream, const float *logits, size_t stride, uint32_t n,
                         const struct draw_rule *rules, uint32_t *to, uint32_t rows) {
    struct draw_job job = {logits, rules, to, stride, n};
    struct gpu_shape shape = {rows, 1, THREADS, sizeof(struct room)};
    if (rows) gpu_launch("draw_tokens", draw_tokens, shape, stream, job);
}
