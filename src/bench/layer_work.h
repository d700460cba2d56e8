/* SPDX-License-Identifier: Apache-2.0
 * What the parts of one MoE layer have to do at least, in closed form: operations of products, and
 * bytes of weights, activations and KV rows, each counted once. And what DeepSeek published for
 * them, on another machine. Pure.
 */
#ifndef BENCH_LAYER_WORK_H
#define BENCH_LAYER_WORK_H

#include "compute/model/model.h"
#include "contract/stage_part.h"

/* A layer's run at one rank. */
struct layer_case {
    const struct shape *shape;
    enum activations activations; /* not fp8-f32 */
    bool prompt;          /* the tokens are a chunk of one prompt, else the next ones of as many
                           * sequences */
    uint32_t tokens;      /* of this rank */
    uint32_t context;     /* positions before each sequence's tokens */
    uint32_t experts;     /* routed ones that lie here */
    uint32_t expert_rows; /* that each of them computes */
};

struct layer_work {
    double flop;       /* of products: two for each multiply-add */
    double flop_float; /* of them, those of F32 values, where others are BF16 or FP8 */
    double bytes;      /* activations and what travels as this engine keeps them */
};

/* True if the part runs in this case, each part of one rank of many. */
bool layer_work_runs(const struct layer_case *layer, enum stage_part part);

/* Zeros where it does not. */
struct layer_work layer_work_of(const struct layer_case *layer, enum stage_part part);

/* Microseconds on an H800, for one micro-batch and layer of DeepSeek-V3; 0: no figure. Decode: 128
 * tokens at 4,096 positions, two routed experts with 1,024 rows together (profile-data,
 * decode.json, EP128; kernels as zdszero.github.io lists them). Prompt: 4,096 tokens, EP64
 * (profile-data, train.json, forward, mean of four layers). */
double layer_work_published(bool prompt, enum stage_part part);

/* What only sums were published for; "" ends the list. */
struct layer_sum {
    const char *name;
    enum stage_part first, last;
    double decode_us, prompt_us; /* 0: no figure */
};
extern const struct layer_sum layer_sums[];

#endif
