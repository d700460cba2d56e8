/* SPDX-License-Identifier: Apache-2.0
 * Writes checkpoints of random weights in the Hugging Face layout, of any shape, for benchmarks
 * (speed does not depend on the weights' values) and for tests of odd shapes. Scales keep
 * activations of order one through many layers. The same (config, seed) gives the same weights on
 * every machine. Checkpoints in FP8 or four bits have the weights of the BF16 one, rounded further.
 */
#pragma once

#include "compute/weights/safetensors.h"
#include "compute/weights/shape.h"

struct random_checkpoint {
    const char *directory; /* created if absent; files in it are overwritten */
    struct bytes config;   /* the config.json to write; it sets shape and quantization */
    uint64_t seed;
    uint32_t shards;       /* 0 or 1: one file; more: shards of whole tensors and an index */
    enum tensor_type type; /* of plain tensors: TENSOR_BF16 (0), TENSOR_F16, TENSOR_F32 */
    float bias_mean, bias_deviation; /* of the router's correction bias */
    bool without_mtp;                /* omit the MTP layers, as many published copies do */
    /* Called with the size of all files before any is written; an error ends the work. May be
     * NULL. */
    enum status (*planned)(void *context, uint64_t bytes, struct error *error);
    void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes); /* may be NULL */
    void *context;                                                              /* of both */
};

enum status random_checkpoint_write(const struct random_checkpoint *plan, struct error *error);
