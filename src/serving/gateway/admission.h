/* SPDX-License-Identifier: Apache-2.0
 * Admission control: decides whether a request may join the queue for units. It is refused if its
 * predicted time to first token exceeds gateway_options.ttft_limit_ns of its class
 * (serving/policy/predict_ttft). An account that has more than its fair share in the queue gets
 * 429. Any other client gets 503, because the fleet is full. Both get a retry time, after which the
 * limit would be met if no other request arrives.
 */
#pragma once

#include "serving/gateway/gateway_state.h"

/* STATUS_INVALID: *error says why not. */
enum status admission_check(const struct gateway *gateway, const struct request *leader,
                            struct request_work work, struct api_error *error) MUST_USE;

/* Call in each step. Measures the time during which there is work, for the prediction. */
void admission_watch(struct gateway *gateway, int64_t now_ns);

/* Feeds the start of a request's answer to the prediction. Call with newly arrived tokens, before
 * they are counted in the request. */
void admission_note_tokens(struct gateway *gateway, const struct request *request, int64_t now_ns);
