/* SPDX-License-Identifier: Apache-2.0
 * The shapes of steps that `fathom bench calibrate` times, and their rows in a hardware file
 * (twin/hardware/README.md). They vary the number of decode rows and their contexts, the number of
 * prefill chunks and their contexts, and mix both in one step. With several ranks, each shape runs
 * on all of them and on a single one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CALIBRATE_SHAPES_MAX 256

/* The work of a busy rank in a step. */
struct calibrate_shape {
    uint32_t chunks, chunk_tokens; /* of prompts */
    uint32_t cached;               /* positions before each chunk; whole blocks */
    uint32_t rows, context;        /* answers; positions that each reads, including its own */
    bool one_busy;                 /* the other ranks have no work */
};

struct calibrate_limits {
    uint32_t ranks;
    uint32_t rows_max, tokens_max; /* of a rank's step */
    uint32_t context_max;          /* tokens of a sequence */
};

/* The hardware file's columns, except `ranks`, `busy` and `us`. */
struct calibrate_share {
    uint64_t prompt_tokens, attended, cached, answer_rows, answer_tokens, context;
};

/* Writes shapes_out[CALIBRATE_SHAPES_MAX] and returns how many. All are within the limits. */
uint32_t calibrate_shapes_list(const struct calibrate_limits *limits,
                               struct calibrate_shape *shapes_out);
struct calibrate_share calibrate_shapes_share(const struct calibrate_shape *shape);
