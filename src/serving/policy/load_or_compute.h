/* SPDX-License-Identifier: Apache-2.0
 * Decides whether KV blocks in the storage are loaded or computed again. Both times are predicted
 * from measurements: a load as a latency plus bytes at a rate, computing by the step cost model.
 * The leading blocks of a prompt may be loaded, and the rest is computed. Every split is
 * considered, because later blocks cost more to compute while all cost the same to load:
 *
 *   first load, then compute                latency + loading(k) + computing(k .. end)
 *   load while computing, layer by layer    the wait of the first step
 *                                           (serving/policy/load_in_step.h) + computing(k .. end)
 *
 * Without a measured rate everything is loaded, to measure it.
 */
#pragma once

#include <stdbool.h>

#include "serving/policy/step_cost.h"

struct load_rate { /* measured rate of one storage level; zeroed at the start */
    double latency_ns, byte_ns;
    double count, bytes, ns, bytes_squared, bytes_ns; /* sums over loads with decaying weights */
};

/* Records that a load of `bytes` bytes took `ns`. */
void load_or_compute_rate_observe(struct load_rate *rate, uint64_t bytes, int64_t ns);

/* The predicted time of a load in ns; 0 if nothing is known. */
double load_or_compute_rate_ns(const struct load_rate *rate, uint64_t bytes);

struct load_ask {
    const struct load_rate *rate;
    const struct step_cost *cost;
    uint32_t first_block;      /* the blocks before it are in pages already */
    uint32_t block_count;      /* blocks that could be loaded */
    uint32_t prompt_tokens;    /* length of the whole prompt */
    uint32_t chunk_tokens_max; /* maximum of prompt tokens in one step */
    uint64_t block_bytes;
    uint32_t layers; /* 0: computing begins after the whole load */
};

struct load_choice {
    uint32_t load_blocks; /* leading blocks to load; the others are computed */
    /* predicted times until the prompt is computed */
    double chosen_ns, load_all_ns, compute_all_ns;
};

struct load_choice load_or_compute(const struct load_ask *ask);
