/* SPDX-License-Identifier: Apache-2.0
 * Decides whether a request may join the queue for units. It may not if its first token would take
 * longer than gateway_options.ttft_limit_ns allows its class (serving/policy/predict_ttft). An
 * account that has more than its share in the queue gets 429. Any other client gets 503, because
 * the fleet is full. Both get the time after which a retry would meet the limit if no other request
 * arrives.
 */
#pragma once

#include "serving/gateway/gateway_state.h"

/* STATUS_INVALID: *error says why not. */
enum status admission_check(const struct gateway *gateway, const struct request *leader,
                            struct request_work work, struct api_error *error) MUST_USE;

/* Called in each step. Measures the time during which there is work to do. */
void admission_watch(struct gateway *gateway, int64_t now_ns);

/* Notes tokens that have arrived for the request and are not counted yet. */
void admission_note_tokens(struct gateway *gateway, const struct request *request, int64_t now_ns);
