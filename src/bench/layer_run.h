/* SPDX-License-Identifier: Apache-2.0
 * One MoE layer of random weights at any size, run through the engine's own stages as one rank of
 * many (compute/exchange/echo.c), and the time of each of their parts.
 */
#ifndef BENCH_LAYER_RUN_H
#define BENCH_LAYER_RUN_H

#include "bench/layer_work.h"
#include "compute/kernels/kernels.h"

struct layer_run_options {
    const char *shape; /* as random_checkpoint_config names it */
    bool fp8;          /* weights; else BF16 */
    const char *activations, *cpu_mask;
    const struct model_device *device; /* where the layer lies; NULL: on the CPU */
    uint32_t threads;                  /* 0: one for each CPU */
    uint32_t experts;                  /* routed ones that lie here: at most half of them */
    bool processor_time; /* of one thread: what it had of its processor, not what the clock says */
};

struct layer_run;

/* Parses the shape, one layer of it; STATUS_INVALID if it has not so many experts. */
enum status layer_run_open(const struct layer_run_options *options, struct layer_run **run_out,
                           struct error *error) MUST_USE;
void layer_run_close(struct layer_run *run);

const struct shape *layer_run_shape(const struct layer_run *run);
enum activations layer_run_activations(const struct layer_run *run);

/* What making the weights, and room for all these cases, will take. */
struct layer_run_bytes {
    uint64_t weights, source; /* packed, and what they are made from */
    uint64_t kv, room;
};
struct layer_run_bytes layer_run_bytes(const struct layer_run *run, const struct layer_case *cases,
                                       uint32_t count);

/* Makes them. */
enum status layer_run_prepare(struct layer_run *run, const struct layer_case *cases, uint32_t count,
                              struct error *error) MUST_USE;
const struct kernels *layer_run_kernels(const struct layer_run *run);
/* What computes: the CPU's kernels by their name, or a device's numerics. */
const char *layer_run_engine(const struct layer_run *run);

struct layer_times { /* seconds: medians over the rounds, or each the best of them */
    double part[STAGE_PART_COUNT];
    double layer; /* of the sum of all parts */
};

/* One of the cases, once unmeasured, then `rounds` times. */
#define LAYER_RUN_ROUNDS_MAX 99
struct layer_rounds {
    uint32_t count;
    bool best; /* not the median: for a busy machine */
};
enum status layer_run_measure(struct layer_run *run, const struct layer_case *layer,
                              const struct layer_rounds *rounds, struct layer_times *times_out,
                              struct error *error) MUST_USE;

#endif
