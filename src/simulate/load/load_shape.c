/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/load/load_shape.h"

#include "base/limits.h"

/* The mean number of tokens at the end of a prompt that fill no block. */
#define BLOCK_LOSS ((KV_BLOCK_TOKENS - 1) / 2.0)

enum status load_shape_solve(const struct mix_moments *moments, struct load_shape *shape,
                             struct error *error) {
    double half = (1 + shape->answer_cv * shape->answer_cv) / 2;
    double answer = moments->kv_tokens / (moments->prompt_answer_ratio + half);
    double prompt = moments->prompt_answer_ratio * answer;
    double later = 1 - 1 / shape->turns;
    double text = (1 - moments->hit_share) * prompt - later * (answer + BLOCK_LOSS);
    double system = prompt - text * shape->turns - answer * (shape->turns - 1);
    if (!(text >= 1))
        return error_set(error, STATUS_INVALID,
                         "no new text is left in a turn (%.0f tokens): conversations of %.3g turns "
                         "have too much of answers in their prompts; lower turns or hit_share",
                         text, shape->turns);
    if (!(system >= 0))
        return error_set(error, STATUS_INVALID,
                         "conversations of %.3g turns share more than hit_share says (system "
                         "prompts of %.0f tokens would be needed); lower turns or raise hit_share",
                         shape->turns, system);
    shape->answer_tokens = answer;
    shape->text_tokens = text;
    shape->system_tokens = system;
    return STATUS_OK;
}
