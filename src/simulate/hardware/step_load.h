/* SPDX-License-Identifier: Apache-2.0
 * The work of a rank in a step: the sums on which the time of the step depends. Sums of rows are
 * whole numbers; means over ranks and parts for micro-batches may be fractions.
 */
#pragma once

#include <stdint.h>

struct step_load {
    double prompt_tokens; /* tokens in the form PROMPT */
    double attended;      /* positions that prompt tokens attend to, summed over the tokens */
    double cached;        /* earlier positions of prompts, which are read and expanded */
    double answer_rows;   /* requests with tokens in the form GENERATED */
    double answer_tokens; /* tokens of these requests: one each, drafts, forced tokens */
    double context;       /* positions that answer rows read, summed over the rows */
};

/* Adds prompt tokens that attend to `positions` positions each on average. The sums are rounded
 * down to whole numbers. */
static inline void step_load_add_prompts(struct step_load *load, double tokens, double positions,
                                         double cached) {
    load->prompt_tokens += (double)(uint64_t)tokens;
    load->attended += (double)(uint64_t)(tokens * positions);
    load->cached += (double)(uint64_t)cached;
}

/* Adds a chunk of one prompt, after `cached` earlier tokens. */
static inline void step_load_add_chunk(struct step_load *load, uint32_t tokens, uint32_t cached) {
    step_load_add_prompts(load, tokens, cached + (tokens + 1.0) / 2, cached);
}

/* Adds rows of answers with `tokens` tokens in total. A row reads `context` positions on
 * average. */
static inline void step_load_add_answers(struct step_load *load, uint32_t rows, uint32_t tokens,
                                         double context) {
    load->answer_rows += rows;
    load->answer_tokens += tokens;
    load->context += (double)(uint64_t)(rows * context);
}

static inline void step_load_remove_prompts(struct step_load *load) {
    load->prompt_tokens = load->attended = load->cached = 0;
}

/* Adds the given part of another load. */
static inline void step_load_add(struct step_load *sum, const struct step_load *load, double part) {
    sum->prompt_tokens += load->prompt_tokens * part;
    sum->attended += load->attended * part;
    sum->cached += load->cached * part;
    sum->answer_rows += load->answer_rows * part;
    sum->answer_tokens += load->answer_tokens * part;
    sum->context += load->context * part;
}

static inline double step_load_tokens(const struct step_load *load) {
    return load->prompt_tokens + load->answer_tokens;
}
