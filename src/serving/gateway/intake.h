/* SPDX-License-Identifier: Apache-2.0
 * Takes a request from its body to the queue for units. Parses, renders and tokenizes it (the host
 * tokenizes long texts), checks its constraint, and checks it against the units' limits. The result
 * is a queued request or an error sent to the client.
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

/* Checks and queues the requests that arrived before any unit, once the first unit has joined.
 * Refuses them if none joins in time. False: the outbox is full. */
bool intake_run(struct gateway *gateway, int64_t now_ns) MUST_USE;

/* Refuses a request that waits for a worker thread of the host or for the first unit, because the
 * server is shutting down or no unit has joined. STATUS_FULL: nothing has changed. */
enum status intake_give_up(struct gateway *gateway, struct request *leader,
                           int64_t now_ns) MUST_USE;
