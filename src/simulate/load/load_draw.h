/* SPDX-License-Identifier: Apache-2.0
 * Draws for loads: a dice gives numbers that depend on its seed, its name and how many it gave
 * before, so that what one request draws never changes with what others do. Lengths are lognormal,
 * times are exponential or gamma.
 */
#ifndef SIMULATE_LOAD_LOAD_DRAW_H
#define SIMULATE_LOAD_LOAD_DRAW_H

#include <stdbool.h>
#include <stdint.h>

/* Zeroed but for these: a dice at its first throw. */
struct load_dice {
    uint64_t seed, name;
    uint32_t purpose, thrown;
};

double load_draw_uniform(struct load_dice *dice); /* (0, 1) */
double load_draw_normal(struct load_dice *dice);
double load_draw_exponential(struct load_dice *dice, double mean);
/* Gamma (Marsaglia, Tsang 2000) of this mean; cv: standard deviation over mean, > 0. */
double load_draw_gamma(struct load_dice *dice, double mean, double cv);

/* exp(mu + sigma n), cut to [1, most] and rounded. */
struct draw_lengths {
    double mu, sigma;
    uint32_t most;
};

/* Lengths whose mean and cv are these behind the cut; false: the cut leaves no room for them. */
bool load_draw_fit(double mean, double cv, uint32_t most, struct draw_lengths *lengths_out);
uint32_t load_draw_length(struct load_dice *dice, const struct draw_lengths *lengths);

/* A number from two others in which no pattern is left (splitmix64's finalizer). */
uint64_t load_draw_hash(uint64_t a, uint64_t b);

#endif
