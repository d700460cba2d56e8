/* SPDX-License-Identifier: Apache-2.0
 * Fill-in-the-middle (FIM): lays out the prompt of a completion with a suffix, in the order and
 * with the special tokens that the model was trained on.
 *
 *   DeepSeek   <｜fim▁begin｜> prompt <｜fim▁hole｜> suffix <｜fim▁end｜>
 *   Qwen       <|fim_prefix|> prompt <|fim_suffix|> suffix <|fim_middle|>
 */
#pragma once

#include "serving/text/tokenizer.h"

struct fim {
    struct bytes text;
    struct plain_text plain; /* prompt and suffix, where no special tokens are recognized */
};

/* Allocates in `arena`. STATUS_UNSUPPORTED: the tokenizer has no FIM tokens. STATUS_NO_MEMORY. */
enum status fim_write(const struct tokenizer *tokenizer, struct bytes prompt, struct bytes suffix,
                      struct arena *arena, struct fim *out) MUST_USE;
