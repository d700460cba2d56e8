/* SPDX-License-Identifier: Apache-2.0
 * Random numbers for loads. A stream depends only on its seed, its name and the number of earlier
 * draws, so the draws of one request never depend on other requests. Lengths are lognormal; times
 * are exponential or gamma.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A random stream. Set the seed, name and purpose before the first draw, and zero the rest. */
struct load_dice {
    uint64_t seed, name;
    uint32_t purpose, thrown;
};

double load_draw_uniform(struct load_dice *dice); /* (0, 1) */
double load_draw_exponential(struct load_dice *dice, double mean);
/* Gamma distributed (Marsaglia, Tsang 2000) with this mean; cv is standard deviation over mean, >
 * 0. */
double load_draw_gamma(struct load_dice *dice, double mean, double cv);

/* Lengths exp(mu + sigma n), n normal, rounded and clipped to [1, most]. */
struct draw_lengths {
    double mu, sigma;
    uint32_t most;
};

/* Finds the distribution with this mean and cv after clipping. Returns false if clipping makes them
 * impossible. */
bool load_draw_fit(double mean, double cv, uint32_t most, struct draw_lengths *lengths_out);
uint32_t load_draw_length(struct load_dice *dice, const struct draw_lengths *lengths);

/* A hash of two numbers (finalizer of splitmix64). */
uint64_t load_draw_hash(uint64_t a, uint64_t b);
