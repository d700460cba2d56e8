/* SPDX-License-Identifier: Apache-2.0
 * From a request's body to the queue of those that wait for a unit: parse, render, tokenize (or let
 * the host do it), have its constraint judged, check that it can fit. Either a request is under way afterwards, or its refusal
 * has gone out.
 */
#ifndef SERVING_GATEWAY_INTAKE_H
#define SERVING_GATEWAY_INTAKE_H

#include "serving/gateway/gateway_state.h"

/* A request that can be taken at all. */
bool intake_ready(const struct gateway *gateway, size_t body_bytes, struct api_error *error);

/* The door for what has been read of a call's body: STATUS_FULL as of endpoints. */
enum status intake_take(struct gateway *gateway, const struct endpoint_call *call,
                        const struct api_request *parsed) MUST_USE;

enum status intake_tokenized(struct gateway *gateway, const struct record_tokenized *record,
                             int64_t now_ns) MUST_USE;

enum status intake_constrained(struct gateway *gateway, const struct record_constrained *record,
                               int64_t now_ns) MUST_USE;

/* Those that came before any unit are judged when the first has come, or refused when none has for
 * too long. False: the outbox has no room for what comes next. */
bool intake_run(struct gateway *gateway, int64_t now_ns) MUST_USE;

/* A request that waits for a thread of the host or for the first unit is refused: the server ends, or no
 * unit has come. STATUS_FULL: not done. */
enum status intake_give_up(struct gateway *gateway, struct request *leader,
                           int64_t now_ns) MUST_USE;

#endif
