/* SPDX-License-Identifier: Apache-2.0
 * The measured steps of a hardware file (`steps:`, twin/hardware/README.md), and a formula that is
 * fitted to them and predicts the time of any other step:
 *
 *   f = fixed + G(prompt_tokens + answer_tokens) + A(answer_rows)
 *       + a prompt_tokens + b attended + c cached + d context
 *
 * G and A are piecewise linear, with bends at the measured rows. All weights, including the slopes
 * of the pieces, are at least 0. Coordinate descent chooses them to minimise the sum of squared
 * relative errors over all rows with the same number of ranks. If ranks have different shares of a
 * step, it takes (1 - e) times f of the slowest rank plus e times f of the mean share.
 */
#pragma once

#include "simulate/hardware/figure_table.h"
#include "simulate/hardware/step_load.h"

#define STEP_ROWS_BENDS 32 /* of a piecewise linear part */
#define STEP_ROWS_PLAIN 5  /* fixed, a, b, c, d */
#define STEP_ROWS_WEIGHTS (STEP_ROWS_PLAIN + 2 * STEP_ROWS_BENDS)
#define STEP_ROWS_RANKS 16 /* different counts of ranks */

struct step_bends { /* ascending; the last piece has no end */
    uint32_t count;
    double at[STEP_ROWS_BENDS];
};

struct step_fit { /* for the rows with one number of ranks */
    uint32_t ranks, row_count;
    struct step_bends tokens, rows;
    double weights[STEP_ROWS_WEIGHTS]; /* us */
    double evenness;                   /* e */
    double error_max;                  /* largest relative error over the rows */
};

struct step_rows {
    char model[TREE_TEXT_BYTES];
    double weight_bytes, page_count;
    uint32_t fit_count;
    struct step_fit fits[STEP_ROWS_RANKS];
};

/* Reads `steps:` and fits the formula. */
enum status step_rows_read(struct arena *arena, const struct tree_place *place,
                           const struct tree *tree, struct step_rows *rows_out) MUST_USE;

/* The fit for a number of ranks; NULL if no row has it. */
const struct step_fit *step_rows_of(const struct step_rows *rows, uint32_t ranks);

/* f, in microseconds. */
double step_rows_fit_us(const struct step_fit *fit, const struct step_load *load);
