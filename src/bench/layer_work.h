/* SPDX-License-Identifier: Apache-2.0
 * The least work of the parts of one MoE layer, in closed form: operations of matrix products, and
 * bytes of weights, activations and KV rows, each counted once. It also has DeepSeek's published
 * times of the parts, on another machine. Pure.
 */
#pragma once

#include "compute/model/model.h"
#include "contract/stage_part.h"

/* One run of a layer on one rank. */
struct layer_case {
    const struct shape *shape;
    enum activations activations; /* not fp8-f32 */
    bool prompt;          /* the tokens are a chunk of one prompt; otherwise the next ones of as
                           * many sequences */
    uint32_t tokens;      /* of this rank */
    uint32_t context;     /* positions before each sequence's tokens */
    uint32_t experts;     /* routed experts on this rank */
    uint32_t expert_rows; /* rows of each of them */
};

struct layer_work {
    double flop;       /* of matrix products: two for each multiply-add */
    double flop_float; /* those of F32 values, if others are BF16 or FP8 */
    double bytes;      /* activations and transfers in this engine's formats */
};

/* True if the part runs in this case, on one rank of many. */
bool layer_work_runs(const struct layer_case *layer, enum stage_part part);

/* Zeros if the part does not run. */
struct layer_work layer_work_of(const struct layer_case *layer, enum stage_part part);

/* Microseconds on an H800, for one micro-batch and layer of DeepSeek-V3; 0: no figure. Decode: 128
 * tokens at 4,096 positions, two routed experts with 1,024 rows together (profile-data,
 * decode.json, EP128; kernels as zdszero.github.io lists them). Prompt: 4,096 tokens, EP64
 * (profile-data, train.json, forward, mean of four layers). */
double layer_work_published(bool prompt, enum stage_part part);

/* Groups of parts for which only the sum was published. "" ends the list. */
struct layer_sum {
    const char *name;
    enum stage_part first, last;
    double decode_us, prompt_us; /* 0: no figure */
};
extern const struct layer_sum layer_sums[];
