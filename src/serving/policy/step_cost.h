/* SPDX-License-Identifier: Apache-2.0
 * A linear model of the time of a step, learnt from earlier steps:
 *
 *   ns = fixed + per answer row + per draft + per prompt token + per KV position that a prompt
 *        token attends to + per token of context that a run of prompt tokens reads back, its own
 *        included
 *
 * The attention of decode rows is part of their weight, because each reads its context only once,
 * while a prompt reads it once per token. Steps of decode rows alone train the first three weights,
 * steps with prompts train the others, so an error about prompts never makes answers look slow. The
 * weights follow the measurements by normalized least mean squares (B. Widrow, S. Haykin: the
 * smallest change that explains a part of the error) and stay at 0 or more. This needs no matrix,
 * and the weights do not drift when the load never varies. One measurement counts for at most twice
 * its prediction, so an outlier has little effect.
 *
 * Doubles with fixed operations in a fixed order: the same measurements give the same predictions.
 */
#pragma once

#include <stdint.h>

enum {
    STEP_COST_FIXED,
    STEP_COST_ROWS,
    STEP_COST_DRAFTS,
    STEP_COST_TOKENS,
    STEP_COST_ATTENDED,
    STEP_COST_CONTEXT,
    STEP_COST_WEIGHTS
};

struct step_cost { /* zeroed at the start: everything is free */
    double weights[STEP_COST_WEIGHTS];
    uint32_t observed[2]; /* steps without prompts, with prompts; up to a bound */
};

struct step_work {
    uint32_t answer_rows;
    uint32_t drafts;        /* further tokens in those rows: drafts, or forced */
    uint32_t prompt_tokens; /* tokens of all rows except single next tokens */
    uint64_t attended;      /* sum over those tokens of the positions up to their own */
    uint64_t context;       /* sum over runs of such tokens of the positions up to their last */
};

/* Adds a run of `token_count` prompt tokens from first_position on. */
void step_cost_work_add(struct step_work *work, uint32_t first_position, uint32_t token_count);

void step_cost_observe(struct step_cost *cost, const struct step_work *work, int64_t ns);

/* The predicted time of a step in ns, >= 0. */
double step_cost_ns(const struct step_cost *cost, const struct step_work *work);

/* The cost in ns of a run of prompt tokens in a step. */
double step_cost_run_ns(const struct step_cost *cost, uint32_t first_position,
                        uint32_t token_count);

/* The cost in ns of each position that a prompt token attends to, and of each position that a run
 * of prompt tokens reads back. */
double step_cost_attended_ns(const struct step_cost *cost);
double step_cost_context_ns(const struct step_cost *cost);

/* The length of the longest run from first_position on, up to tokens_max, that adds at most
 * `ns`. */
uint32_t step_cost_afford(const struct step_cost *cost, uint32_t first_position,
                          uint32_t tokens_max, double ns);
