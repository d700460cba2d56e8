/* SPDX-License-Identifier: Apache-2.0
 * The way of a request from its body to the queue for units: it is parsed, rendered and tokenized
 * (by the host if the text is long), its constraint is checked, and it must fit the units' limits.
 * Afterwards it is in progress, or its refusal has been sent.
 */
#pragma once

#include "serving/gateway/gateway_state.h"

/* True if the gateway can take a request with a body of this size now; else *error has the
 * reason. */
bool intake_ready(const struct gateway *gateway, size_t body_bytes, struct api_error *error);

/* Takes the parsed body of a request. STATUS_FULL: the outbox has no room, and nothing has
 * changed. */
enum status intake_take(struct gateway *gateway, const struct endpoint_call *call,
                        const struct api_request *parsed) MUST_USE;

enum status intake_tokenized(struct gateway *gateway, const struct record_tokenized *record,
                             int64_t now_ns) MUST_USE;

enum status intake_constrained(struct gateway *gateway, const struct record_constrained *record,
                               int64_t now_ns) MUST_USE;

/* Checks the requests that arrived before any unit once the first unit has joined, or refuses them
 * if none has joined for too long. False: the outbox is full. */
bool intake_run(struct gateway *gateway, int64_t now_ns) MUST_USE;

/* Refuses a request that waits for a thread of the host or for the first unit, because the server
 * shuts down or no unit has joined. STATUS_FULL: nothing has changed. */
enum status intake_give_up(struct gateway *gateway, struct request *leader,
                           int64_t now_ns) MUST_USE;
