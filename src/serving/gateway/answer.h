/* SPDX-License-Identifier: Apache-2.0
 * Units' records of an answer in progress: its tokens, and the log probabilities of its prompt.
 * Converts them to text for the client. Ends the answer at a stop string or when it is too large.
 */
#pragma once

#include "serving/gateway/gateway_state.h"

/* Handles a record from the unit at that place of the fleet's table. Ignores records of requests
 * that the unit does not have (any more). STATUS_INVALID: the record cannot be true. */
enum status answer_tokens(struct gateway *gateway, uint32_t unit,
                          const struct record_tokens *record, int64_t now_ns) MUST_USE;

enum status answer_scores(struct gateway *gateway, uint32_t unit,
                          const struct record_scores *record) MUST_USE;
