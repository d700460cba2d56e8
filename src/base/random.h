/* SPDX-License-Identifier: Apache-2.0
 * A counter-based random number generator: Philox4x32-10 (Salmon et al., "Parallel random numbers:
 * as easy as 1, 2, 3", SC 2011). The same (key, counter) gives the same numbers on every machine
 * and in any order, so the random number of a sampled token depends only on (seed, choice, output
 * position).
 */
#pragma once

#include <stdint.h>

/* Fills out[4] with 32 random bits each. */
void random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* A uniform number in [0, 1) with 53 bits, for token output_position of answer `choice`. */
double random_uniform(uint64_t seed, uint32_t choice, uint32_t output_position);
