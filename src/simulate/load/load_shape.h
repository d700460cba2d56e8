/* SPDX-License-Identifier: Apache-2.0
 * The shape of a mix of requests, and the shape that has given moments. A mix consists of
 * conversations, each with a system prompt that many share, and turns. A turn's prompt is the whole
 * prompt of the previous turn, its answer, and new text. Answers and texts are lognormal and
 * independent; the number of turns is geometric.
 *
 * With means A of answers, U of new text, S of system prompts, T of turns, and B tokens in a block:
 *   prompt            P = S + U T + A (T - 1)
 *   computed          N = U + (1 - 1/T) (A + (B - 1)/2)     with a cache that evicts nothing: a
 *                     prompt obtains the whole blocks of the prompt before it. An answer's own KV
 *                     blocks are of the form GENERATED, so the next prompt computes it anew.
 *   KV an answer token reads, mean  K = P + A (1 + cv^2)/2
 * Three of these are published (P/A, 1 - N/P, K), so A, U and S follow from T and the cvs.
 */
#pragma once

#include "base/status.h"
#include "simulate/load/load_draw.h"

struct load_shape {
    double answer_tokens, answer_cv; /* mean, and standard deviation over mean */
    double text_tokens, text_cv;     /* new in a turn */
    double system_tokens;            /* mean */
    double turns;                    /* mean of a conversation, >= 1 */
    uint32_t systems;                /* different system prompts, all equally frequent */
    /* limit of prompt and answer; a conversation ends before it would exceed this */
    uint32_t tokens_max;
};

struct mix_moments {
    double prompt_answer_ratio; /* prompt tokens over answer tokens */
    double hit_share;           /* of prompt tokens, 0..1, with a cache that evicts nothing */
    double kv_tokens;           /* KV tokens that an answer token reads, mean over answer tokens */
};

/* Sets answer_tokens, text_tokens and system_tokens from the other members. Returns STATUS_INVALID
 * if no such shape has these moments; the error suggests a change. */
enum status load_shape_solve(const struct mix_moments *moments, struct load_shape *shape,
                             struct error *error) MUST_USE;
