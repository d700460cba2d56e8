/* SPDX-License-Identifier: Apache-2.0
 * Whether a request that is ready to wait for a unit may: not when its first token would come later
 * than gateway_options.ttft_limit_ns allows its class (serving/policy/predict_ttft). An account that
 * has more waiting than the others is told that it is its own doing (429), anybody else that the
 * fleet is full (503), and both when to come again: when so little waits that it would be in time, if
 * nobody else comes.
 */
#ifndef SERVING_GATEWAY_ADMISSION_H
#define SERVING_GATEWAY_ADMISSION_H

#include "serving/gateway/gateway_state.h"

/* STATUS_INVALID: *error says why not. */
enum status admission_check(const struct gateway *gateway, const struct request *leader,
                            struct request_work work, struct api_error *error) MUST_USE;

/* Each step: is there something to do, whose time is to be measured? */
void admission_watch(struct gateway *gateway, int64_t now_ns);

/* Tokens have come for the request, and are not counted yet. */
void admission_note_tokens(struct gateway *gateway, const struct request *request, int64_t now_ns);

#endif
