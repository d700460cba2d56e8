/* SPDX-License-Identifier: Apache-2.0
 * /tokenize and /detokenize: a text's tokens as a completion's prompt has them, and back. A text is
 * a request that takes the same way to its tokens as any prompt (intake.h), long ones by the
 * tokenizer's queue, and ends there.
 */
#ifndef SERVING_GATEWAY_PROMPT_TOKENS_H
#define SERVING_GATEWAY_PROMPT_TOKENS_H

#include "serving/gateway/gateway_state.h"

/* Tells a request its tokens, which it has, and ends it. STATUS_INVALID: *error says why not. */
enum status prompt_tokens_tell(struct gateway *gateway, struct request *leader,
                               struct api_error *error) MUST_USE;

#endif
