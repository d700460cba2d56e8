/* SPDX-License-Identifier: Apache-2.0
 * From a request's body to the unit's queue: parse, render, tokenize (or let the host do it), check
 * that it can fit, submit. Either a request is under way afterwards, or its refusal has gone out.
 */
#ifndef GATEWAY_INTAKE_H
#define GATEWAY_INTAKE_H

#include "gateway/request.h"

enum status intake_request(struct gateway *gateway, const struct record_client_request *record,
                           enum api_endpoint endpoint, int64_t now_ns) MUST_USE;

enum status intake_tokenized(struct gateway *gateway,
                             const struct record_tokenized *record) MUST_USE;

#endif
