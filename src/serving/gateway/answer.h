/* SPDX-License-Identifier: Apache-2.0
 * What units say of an answer while it is made: its tokens, and the log probabilities of its prompt.
 * They become text for the client, and may end the answer by a stop string or by its size.
 */
#ifndef SERVING_GATEWAY_ANSWER_H
#define SERVING_GATEWAY_ANSWER_H

#include "serving/gateway/gateway_state.h"

/* From the unit of that place in the fleet's table; what is said of requests that it does not have
 * (any more) goes unheard. STATUS_INVALID: it cannot be true. */
enum status answer_tokens(struct gateway *gateway, uint32_t unit,
                          const struct record_tokens *record, int64_t now_ns) MUST_USE;

enum status answer_scores(struct gateway *gateway, uint32_t unit,
                          const struct record_scores *record) MUST_USE;

#endif
