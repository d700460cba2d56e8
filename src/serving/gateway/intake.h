/* SPDX-License-Identifier: Apache-2.0
 * From a request's body to the queue for units: parses, renders, tokenizes (or sends the text to
 * the host), has the constraint checked, and checks that the request can fit. Afterwards either the
 * request is in progress or its refusal is sent.
 */
#pragma once

#include "serving/gateway/gateway_state.h"

/* Whether a request can be taken at all. */
bool intake_ready(const struct gateway *gateway, size_t body_bytes, struct api_error *error);

/* Takes the parsed body of a call. STATUS_FULL: as of endpoints. */
enum status intake_take(struct gateway *gateway, const struct endpoint_call *call,
                        const struct api_request *parsed) MUST_USE;

enum status intake_tokenized(struct gateway *gateway, const struct record_tokenized *record,
                             int64_t now_ns) MUST_USE;

enum status intake_constrained(struct gateway *gateway, const struct record_constrained *record,
                               int64_t now_ns) MUST_USE;

/* Checks requests that arrived before any unit, once the first unit has joined. Refuses them if
 * none has joined for too long. False: the outbox is full. */
bool intake_run(struct gateway *gateway, int64_t now_ns) MUST_USE;

/* Refuses a request that waits for a thread of the host or for the first unit: the server ends, or
 * no unit has joined. STATUS_FULL: nothing has changed. */
enum status intake_give_up(struct gateway *gateway, struct request *leader,
                           int64_t now_ns) MUST_USE;
