/* SPDX-License-Identifier: Apache-2.0
 * The rows that a rank's tokens attend to in a step. With dense attention these are all before
 * them. With sparse attention (V3.2's) a token with more than index_top_k rows scores all of them
 * with the indexer and attends to the best index_top_k. Pure.
 *
 * A step's load has sums over its requests, so rows of answers count with their mean context, and
 * prompts as equal chunks that have the same sums.
 */
#pragma once

#include "simulate/hardware/hardware_file.h"
#include "simulate/hardware/step_load.h"

/* k equal chunks of c tokens, each after r positions, that have a load's three sums: attended is
 * k (c r + c (c + 1) / 2), cached is k r, tokens are k c. */
struct attended_chunks {
    double count, tokens, before;
};

struct attended_rows {
    double answer_rows;   /* rows of answers that are attended to, */
    double answer_scored; /* and keys that the indexer scores for them */
    /* prompt tokens that attend to all rows (expanded form): pairs of a token and a row, and rows
     * that are expanded */
    double dense_tokens, dense_pairs, dense_rows;
    double sparse_tokens; /* prompt tokens that attend to chosen rows (absorbed form), */
    double prompt_scored; /* and pairs that the indexer scores for them */
};

struct attended_chunks attended_rows_chunks(const struct step_load *load);
struct attended_rows attended_rows_of(const struct model_figures *model,
                                      const struct step_load *load);
