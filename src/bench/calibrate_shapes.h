/* SPDX-License-Identifier: Apache-2.0
 * The shapes of steps that `fathom bench calibrate` times, and what a hardware file says of each
 * (twin/hardware/README.md): answers of several counts and contexts, chunks of prompts behind
 * several contexts, several chunks, and both in one step. Among ranks, each shape on all of them and
 * on one alone.
 */
#ifndef BENCH_CALIBRATE_SHAPES_H
#define BENCH_CALIBRATE_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

#define CALIBRATE_SHAPES_MAX 256

/* What a busy rank has in a step. */
struct calibrate_shape {
    uint32_t chunks, chunk_tokens; /* of prompts */
    uint32_t cached;               /* positions before each chunk; whole blocks */
    uint32_t rows, context;        /* answers; positions that each reads, its own included */
    bool one_busy;                 /* the other ranks have nothing */
};

struct calibrate_limits {
    uint32_t ranks;
    uint32_t rows_max, tokens_max; /* of a rank's step */
    uint32_t context_max;          /* tokens of a sequence */
};

/* The hardware file's columns, but `ranks`, `busy` and `us`. */
struct calibrate_share {
    uint64_t prompt_tokens, attended, cached, answer_rows, answer_tokens, context;
};

/* How many there are; all fit the limits. shapes_out[CALIBRATE_SHAPES_MAX]. */
uint32_t calibrate_shapes_list(const struct calibrate_limits *limits,
                               struct calibrate_shape *shapes_out);
struct calibrate_share calibrate_shapes_share(const struct calibrate_shape *shape);

#endif
