/* SPDX-License-Identifier: Apache-2.0
 * The rate is a least-squares line through the past loads. The weight of a load falls by a tenth
 * with each later one. If all loads have one size, the latency is 0 and the rate is the mean.
 */
#include "serving/policy/load_or_compute.h"

#include "base/limits.h"
#include "serving/policy/load_in_step.h"

#define FADE 0.9

void load_or_compute_rate_observe(struct load_rate *rate, uint64_t bytes, int64_t ns) {
    if (bytes == 0 || ns <= 0) return;
    double x = (double)bytes, y = (double)ns;
    rate->count = rate->count * FADE + 1;
    rate->bytes = rate->bytes * FADE + x;
    rate->ns = rate->ns * FADE + y;
    rate->bytes_squared = rate->bytes_squared * FADE + x * x;
    rate->bytes_ns = rate->bytes_ns * FADE + x * y;
    double mean = rate->bytes / rate->count;
    double spread = rate->bytes_squared / rate->count - mean * mean;
    double slope = 0;
    if (spread > 1e-3 * mean * mean)
        slope = (rate->bytes_ns / rate->count - mean * (rate->ns / rate->count)) / spread;
    double flat = rate->ns / rate->bytes;
    if (slope <= 0 || slope > flat) slope = flat; /* latency is never negative */
    rate->byte_ns = slope;
    rate->latency_ns = (rate->ns - slope * rate->bytes) / rate->count;
    if (rate->latency_ns < 0) rate->latency_ns = 0;
}

double load_or_compute_rate_ns(const struct load_rate *rate, uint64_t bytes) {
    return bytes ? rate->latency_ns + rate->byte_ns * (double)bytes : 0;
}

/* The time to compute the prompt from token `first` on, in steps of whole chunks. *first_step_out:
 * the time of the first step. */
static double compute_ns(const struct load_ask *ask, uint32_t first, double *first_step_out) {
    double sum = 0;
    *first_step_out = 0;
    uint32_t chunk = ask->chunk_tokens_max ? ask->chunk_tokens_max : ask->prompt_tokens;
    while (first < ask->prompt_tokens) {
        uint32_t tokens = ask->prompt_tokens - first;
        if (tokens > chunk) tokens = chunk;
        struct step_work work = {0};
        step_cost_work_add(&work, first, tokens);
        sum += step_cost_ns(ask->cost, &work);
        if (*first_step_out == 0) *first_step_out = sum;
        first += tokens;
    }
    return sum;
}

static double split_ns(const struct load_ask *ask, uint32_t load_blocks) {
    double load = load_or_compute_rate_ns(ask->rate, load_blocks * ask->block_bytes), step;
    double compute = compute_ns(ask, (ask->first_block + load_blocks) * KV_BLOCK_TOKENS, &step);
    if (ask->layers == 0 || load_blocks == 0) return load + compute;
    return compute + load_in_step_wait_ns(ask->rate->latency_ns, load, ask->layers, step);
}

struct load_choice load_or_compute(const struct load_ask *ask) {
    struct load_choice choice = {.load_blocks = ask->block_count};
    choice.load_all_ns = choice.chosen_ns = split_ns(ask, ask->block_count);
    choice.compute_all_ns = split_ns(ask, 0);
    if (ask->rate->count == 0 || ask->cost->observed[1] == 0) return choice;
    for (uint32_t blocks = 0; blocks < ask->block_count; blocks++) {
        double ns = split_ns(ask, blocks);
        if (ns >= choice.chosen_ns) continue;
        choice.chosen_ns = ns;
        choice.load_blocks = blocks;
    }
    return choice;
}
