/* SPDX-License-Identifier: Apache-2.0
 * The shape of a mix of requests, and a solver for the shape with given moments. A mix consists of
 * conversations. A conversation has turns and begins with a system prompt that many conversations
 * share. The prompt of a turn is the whole previous prompt, its answer, and new text. The lengths
 * of answers and texts are lognormal and independent; the number of turns is geometric.
 *
 * With means A of answers, U of new text, S of system prompts, T of turns, and B tokens in a block:
 *   prompt            P = S + U T + A (T - 1)
 *   computed          N = U + (1 - 1/T) (A + (B - 1)/2)     with a cache that evicts nothing: a
 *                     prompt obtains the whole blocks of the prompt before it. An answer's own KV
 *                     blocks are of the form GENERATED, so the next prompt computes it anew.
 *   KV an answer token reads, mean  K = P + A (1 + cv^2)/2
 * T is also the mean index of a turn (counted from 1) over all prompts, because long conversations
 * have more of them: for geometric n, E[n(n+1)/2] / E[n] = T.
 * Three of these are published (P/A, 1 - N/P, K), so A, U and S follow from T and the cvs.
 */
#pragma once

#include "base/status.h"
#include "simulate/load/load_draw.h"

struct load_shape {
    double answer_tokens, answer_cv; /* mean; standard deviation over mean */
    double text_tokens, text_cv;     /* new text in a turn */
    double system_tokens;            /* mean */
    double turns;                    /* mean for a conversation, >= 1 */
    uint32_t systems;                /* different system prompts, all equally frequent */
    /* Limit of prompt plus answer. A conversation ends before it would exceed this. */
    uint32_t tokens_max;
};

struct mix_moments {
    double prompt_answer_ratio; /* prompt tokens over answer tokens */
    double hit_share;           /* cached share of prompt tokens, 0..1, if nothing is evicted */
    double kv_tokens;           /* mean number of KV tokens that an answer token reads */
};

/* Sets answer_tokens, text_tokens and system_tokens from the moments, answer_cv and turns. Returns
 * STATUS_INVALID if no shape has these moments; the error suggests a change. */
enum status load_shape_solve(const struct mix_moments *moments, struct load_shape *shape,
                             struct error *error) MUST_USE;
