/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/load/load_draw.h"

#include <math.h>

#include "base/hash.h"
#include "base/random.h"

#define PI 3.14159265358979323846
#define FIT_ROUNDS 200
#define FIT_CLOSE 1e-9
#define FIT_NEAR 1e-4 /* a fit with a larger error is rejected */

double load_draw_uniform(struct load_dice *dice) {
    const uint32_t counter[4] = {(uint32_t)dice->name, (uint32_t)(dice->name >> 32), dice->purpose,
                                 dice->thrown++};
    const uint32_t key[2] = {(uint32_t)dice->seed, (uint32_t)(dice->seed >> 32)};
    uint32_t out[4];
    random_philox(counter, key, out);
    uint64_t bits = ((uint64_t)out[0] << 32 | out[1]) >> 11;
    return ((double)bits + 0.5) * 0x1p-53;
}

static double load_draw_normal(struct load_dice *dice) {
    double radius = sqrt(-2 * log(load_draw_uniform(dice)));
    return radius * cos(2 * PI * load_draw_uniform(dice));
}

double load_draw_exponential(struct load_dice *dice, double mean) {
    return -mean * log(load_draw_uniform(dice));
}

double load_draw_gamma(struct load_dice *dice, double mean, double cv) {
    double shape = 1 / (cv * cv), boost = 1;
    if (shape < 1) { /* gamma with shape + 1, times a power of a uniform variable */
        boost = pow(load_draw_uniform(dice), 1 / shape);
        shape += 1;
    }
    double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = load_draw_normal(dice), v = 1 + c * x;
        if (v <= 0) continue;
        v = v * v * v;
        if (log(load_draw_uniform(dice)) < 0.5 * x * x + d - d * v + d * log(v))
            return boost * d * v * mean * cv * cv;
    }
}

static double load_draw_below(double z) { /* the share of the normal distribution below z */
    return 0.5 * erfc(-z / sqrt(2));
}

/* The mean of min(X, most) ^ power. */
static double cut_moment(const struct draw_lengths *lengths, double power) {
    double top = (log(lengths->most) - lengths->mu) / lengths->sigma;
    double whole = exp(power * lengths->mu + 0.5 * power * power * lengths->sigma * lengths->sigma);
    return whole * load_draw_below(top - power * lengths->sigma) +
           pow(lengths->most, power) * (1 - load_draw_below(top));
}

bool load_draw_fit(double mean, double cv, uint32_t most, struct draw_lengths *lengths_out) {
    if (!(mean >= 1 && mean < most && cv >= 0)) return false;
    double variance = log1p(cv * cv);
    struct draw_lengths lengths = {log(mean) - variance / 2, sqrt(variance), most};
    for (int round = 0; cv > 0 && round < FIT_ROUNDS; round++) {
        double first = cut_moment(&lengths, 1), second = cut_moment(&lengths, 2);
        double found = log(second / (first * first)), share = mean / first;
        if (fabs(share - 1) < FIT_CLOSE && fabs(found - variance) < FIT_CLOSE) break;
        double spread = lengths.sigma * lengths.sigma * variance / found;
        lengths.mu += log(share) + (lengths.sigma * lengths.sigma - spread) / 2;
        lengths.sigma = sqrt(spread);
    }
    if (cv > 0) {
        double first = cut_moment(&lengths, 1);
        double found = sqrt(cut_moment(&lengths, 2) / (first * first) - 1);
        if (!(fabs(first / mean - 1) < FIT_NEAR && fabs(found / cv - 1) < FIT_NEAR)) return false;
    }
    *lengths_out = lengths;
    return true;
}

uint32_t load_draw_length(struct load_dice *dice, const struct draw_lengths *lengths) {
    double length = exp(lengths->mu + lengths->sigma * load_draw_normal(dice));
    if (length >= lengths->most) return lengths->most;
    return length < 1 ? 1 : (uint32_t)(length + 0.5);
}

uint64_t load_draw_hash(uint64_t a, uint64_t b) {
    return hash_mix(a + HASH_STEP * (b + 1));
}
