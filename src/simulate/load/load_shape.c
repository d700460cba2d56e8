/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/load/load_shape.h"

#include "base/limits.h"

/* The mean number of tokens in a prompt's last, partial KV block, which are never cache hits. */
#define BLOCK_LOSS ((KV_BLOCK_TOKENS - 1) / 2.0)

/* Solves the equations in load_shape.h for A, U and S, given the moments, answer_cv and turns.
 * Ignores tokens_max: conversations that it ends early are not accounted for. */
enum status load_shape_solve(const struct mix_moments *moments, struct load_shape *shape,
                             struct error *error) {
    /* Each answer token attends to the prompt plus, on average, this multiple of the mean answer
     * length. */
    double answer_context_factor = (1 + shape->answer_cv * shape->answer_cv) / 2;
    double answer = moments->kv_tokens / (moments->prompt_answer_ratio + answer_context_factor);
    double prompt = moments->prompt_answer_ratio * answer;
    double later_turn_share = 1 - 1 / shape->turns; /* share of turns that are not the first */
    double new_tokens =
        (1 - moments->hit_share) * prompt - later_turn_share * (answer + BLOCK_LOSS);
    double system_prompt = prompt - new_tokens * shape->turns - answer * (shape->turns - 1);
    if (!(new_tokens >= 1))
        return error_set(error, STATUS_INVALID,
                         "a turn would have %.0f tokens of new text, but needs at least 1: in "
                         "conversations of %.3g turns, recomputing earlier answers already uses up "
                         "the uncached tokens; lower turns or hit_share",
                         new_tokens, shape->turns);
    if (!(system_prompt >= 0))
        return error_set(error, STATUS_INVALID,
                         "conversations of %.3g turns reuse more of their prompts than hit_share "
                         "allows (the system prompt would have %.0f tokens); lower turns or raise "
                         "hit_share",
                         shape->turns, system_prompt);
    shape->answer_tokens = answer;
    shape->text_tokens = new_tokens;
    shape->system_tokens = system_prompt;
    return STATUS_OK;
}
