/* SPDX-License-Identifier: Apache-2.0
 * The hashes of Engram (V4.1): which rows of a layer's table an n-gram of token ids looks up. Pure.
 *
 *   x[1] = id(p) * m[0],  x[n] = x[n-1] XOR id(p-n+1) * m[n-1]          for n-grams of 2 to N ids
 *   row of (n, head) = x[n] mod prime[n][head] + the sum of all primes of the layer before it
 *
 * Ids are folded (engram_fold.h); before a sequence's start stands the folded id of the pad token.
 * The multipliers m are odd numbers, 2 * numpy.random.default_rng(10007 * layer).integers(0, max(1,
 * (2^63 - 1) / folded ids / 2), N) + 1. Primes: for each layer, n and head the next prime from
 * engram_vocab_size on that no layer uses yet; each n begins at engram_vocab_size again.
 * Source: DeepSeek-V4.1, inference/engram.py; numpy 1.17 and later (SeedSequence, PCG64, Lemire).
 */
#pragma once

#include "compute/weights/shape.h"

struct engram_hash {
    uint32_t layers; /* as in the shape */
    uint64_t multipliers[ENGRAM_LAYERS_MAX][ENGRAM_NGRAM_MAX];
    uint32_t primes[ENGRAM_LAYERS_MAX][ENGRAM_ROWS_MAX];  /* by n-gram size from 2 on, then head */
    uint32_t offsets[ENGRAM_LAYERS_MAX][ENGRAM_ROWS_MAX]; /* sums of the primes before each */
    uint64_t rows[ENGRAM_LAYERS_MAX];                     /* of each table */
};

/* Computes the hashes of the shape's layers. */
void engram_hash_open(const struct shape *shape, struct engram_hash *hash_out);

/* The rows of one position. ids[N]: its folded id, then those before it. */
void engram_hash_rows(const struct shape *shape, const struct engram_hash *hash, uint32_t layer,
                      const uint32_t *ids, uint32_t *rows_out /* [shape_engram_rows] */);

/* numpy.random.default_rng(seed).integers(0, below, count), below >= 1. */
void engram_hash_draw(uint64_t seed, uint64_t below, uint32_t count, uint64_t *out);
