/* SPDX-License-Identifier: Apache-2.0
 * From a request's body to the queue of those that wait for a unit: parse, render, tokenize (or let
 * the host do it), check that it can fit. Either a request is under way afterwards, or its refusal
 * has gone out.
 */
#ifndef SERVING_GATEWAY_INTAKE_H
#define SERVING_GATEWAY_INTAKE_H

#include "serving/gateway/request.h"

enum status intake_request(struct gateway *gateway, const struct record_client_request *record,
                           enum api_endpoint endpoint, uint32_t account, int64_t now_ns) MUST_USE;

enum status intake_tokenized(struct gateway *gateway, const struct record_tokenized *record,
                             int64_t now_ns) MUST_USE;

/* The first unit has come: a request that waits for one, UNSETTLED, is judged, and all its choices
 * wait from now on, or it is refused and released. STATUS_FULL: not done. */
enum status intake_settle(struct gateway *gateway, struct request *leader, int64_t now_ns) MUST_USE;

/* No unit has come for too long. Likewise. */
enum status intake_give_up(struct gateway *gateway, struct request *leader) MUST_USE;

#endif
