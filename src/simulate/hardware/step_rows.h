/* SPDX-License-Identifier: Apache-2.0
 * The measured steps of a hardware file (`steps:`, twin/hardware/README.md), and the time of any
 * other step by interpolation:
 *
 *   f = fixed + G(prompt_tokens + answer_tokens) + A(answer_rows)
 *       + a prompt_tokens + b attended + c cached + d context
 *
 * G and A are piecewise linear, with bends at the rows. All weights, including the slopes of the
 * pieces, are 0 or more. They minimise the sum of squared relative errors over the rows with the
 * same number of ranks, by coordinate descent. If ranks have different shares, a step takes (1 - e)
 * of the slowest rank's f plus e of the mean share's.
 */
#pragma once

#include "simulate/hardware/figure_table.h"

#define STEP_ROWS_BENDS 32 /* of a piecewise linear part */
#define STEP_ROWS_PLAIN 5  /* fixed, a, b, c, d */
#define STEP_ROWS_WEIGHTS (STEP_ROWS_PLAIN + 2 * STEP_ROWS_BENDS)
#define STEP_ROWS_RANKS 16 /* different counts of ranks */

struct step_bends { /* ascending; the last piece has no end */
    uint32_t count;
    double at[STEP_ROWS_BENDS];
};

struct step_fit { /* fit of the rows with one number of ranks */
    uint32_t ranks, row_count;
    struct step_bends tokens, rows;
    double weights[STEP_ROWS_WEIGHTS]; /* us */
    double evenness;                   /* e */
    double error_max;                  /* relative, over its rows */
};

struct step_rows {
    char model[TREE_TEXT_BYTES];
    double weight_bytes, page_count;
    uint32_t fit_count;
    struct step_fit fits[STEP_ROWS_RANKS];
};

struct step_features { /* of a rank; fractions if it is a mean */
    double prompt_tokens, attended, cached, answer_rows, answer_tokens, context;
};

/* Reads `steps:` and fits. */
enum status step_rows_read(struct arena *arena, const struct tree_place *place,
                           const struct tree *tree, struct step_rows *rows_out) MUST_USE;

/* The fit for a number of ranks; NULL if no rows have it. */
const struct step_fit *step_rows_of(const struct step_rows *rows, uint32_t ranks);

/* f in us. */
double step_rows_fit_us(const struct step_fit *fit, const struct step_features *features);
