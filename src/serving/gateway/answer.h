/* SPDX-License-Identifier: Apache-2.0
 * Handles units' records about an answer in progress: its tokens, and the log probabilities of its
 * prompt. Detokenizes them for the client. Ends the answer at a stop string or when it is too
 * large.
 */
#pragma once

#include "serving/gateway/gateway_state.h"

/* Each handles a record from the unit with this index in the fleet's table, and ignores records of
 * requests that the unit does not have (any more). STATUS_INVALID: no correct unit sends such a
 * record. */
enum status answer_tokens(struct gateway *gateway, uint32_t unit,
                          const struct record_tokens *record, int64_t now_ns) MUST_USE;

enum status answer_progress(struct gateway *gateway, uint32_t unit,
                            const struct record_progress *record, int64_t now_ns) MUST_USE;

enum status answer_scores(struct gateway *gateway, uint32_t unit,
                          const struct record_scores *record) MUST_USE;
