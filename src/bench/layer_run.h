/* SPDX-License-Identifier: Apache-2.0
 * Runs one MoE layer of random weights, of any size, through the engine's own stages as one rank of
 * many (compute/exchange/exchange_loopback.c), and measures the time of each part of the stages.
 */
#pragma once

#include "bench/layer_work.h"
#include "compute/kernels/kernels.h"
#include "compute/weights/named_shapes.h"

struct layer_run_options {
    const char *shape; /* of NAMED_SHAPES_CHOICES */
    enum named_weights weights;
    const char *activations, *cpu_mask;
    const struct model_device *device; /* the layer's device; NULL: the CPU */
    uint32_t threads;                  /* 0: one for each CPU */
    uint32_t experts;                  /* routed experts of this rank: at most half of all */
};

struct layer_run;

/* Parses the shape and uses one layer of it. Returns STATUS_INVALID if it has too few experts. */
enum status layer_run_open(const struct layer_run_options *options, struct layer_run **run_out,
                           struct error *error) MUST_USE;
void layer_run_close(struct layer_run *run);

const struct shape *layer_run_shape(const struct layer_run *run);
enum activations layer_run_activations(const struct layer_run *run);

/* The memory for the weights and for all these cases. */
struct layer_run_bytes {
    uint64_t weights, source; /* packed weights, and the checkpoint from which they are packed */
    uint64_t kv, room;
};
struct layer_run_bytes layer_run_bytes(const struct layer_run *run, const struct layer_case *cases,
                                       uint32_t count);

/* Creates the weights and allocates the memory. */
enum status layer_run_prepare(struct layer_run *run, const struct layer_case *cases, uint32_t count,
                              struct error *error) MUST_USE;
const struct kernels *layer_run_kernels(const struct layer_run *run);
/* The engine: the name of the CPU's kernels, or a device's numerics. */
const char *layer_run_engine(const struct layer_run *run);

struct layer_times { /* seconds: medians over the rounds, or the best of each */
    double part[STAGE_PART_COUNT];
    double layer; /* sum of all parts */
};

/* Runs one of the cases once unmeasured, then `rounds` times. */
#define LAYER_RUN_ROUNDS_MAX 99
struct layer_rounds {
    uint32_t count;
    bool best; /* the best instead of the median: for a busy machine */
};
enum status layer_run_measure(struct layer_run *run, const struct layer_case *layer,
                              const struct layer_rounds *rounds, struct layer_times *times_out,
                              struct error *error) MUST_USE;
