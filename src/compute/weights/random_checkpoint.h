/* SPDX-License-Identifier: Apache-2.0
 * Writes checkpoints of random weights in the Hugging Face layout, of any shape, for benchmarks
 * (speed does not depend on the weights' values) and for tests of odd shapes. Scales keep
 * activations of order one through many layers. The same (config, seed) gives the same weights on
 * every machine. An FP8 checkpoint has the weights of the BF16 one, rounded further.
 */
#pragma once

#include "compute/weights/safetensors.h"
#include "compute/weights/shape.h"

struct random_checkpoint {
    const char *directory; /* created if absent; files in it are overwritten */
    struct bytes config;   /* the config.json to write; it sets shape and FP8 */
    uint64_t seed;
    uint32_t shards;       /* 0 or 1: one file; more: shards of whole tensors and an index */
    enum tensor_type type; /* of other tensors than FP8: TENSOR_BF16 (0), TENSOR_F16, TENSOR_F32 */
    float bias_mean, bias_deviation; /* of the router's correction bias */
    bool without_mtp;                /* omit the MTP layers, as many published copies do */
    /* Called with the size of all files before any is written; an error ends the work. May be
     * NULL. */
    enum status (*planned)(void *context, uint64_t bytes, struct error *error);
    void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes); /* may be NULL */
    void *context;                                                              /* of both */
};

enum status random_checkpoint_write(const struct random_checkpoint *plan, struct error *error);

/* Writes config.json of a named shape to `out`: "v3" (671 B parameters), "v2-lite" (16 B), "dsv3b"
 * (the benchmark shape, 792 M) or "tiny". Returns its bytes; 0 for an unknown name. */
#define RANDOM_CHECKPOINT_CONFIG_BYTES 4096
size_t random_checkpoint_config(const char *name, bool fp8, bool mtp,
                                char out[RANDOM_CHECKPOINT_CONFIG_BYTES]);
