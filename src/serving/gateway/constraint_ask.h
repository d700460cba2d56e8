/* SPDX-License-Identifier: Apache-2.0
 * Constrained decoding, from the parsed request to the host's verdict. Builds a constraint
 * (serving/constraint/constraint.h) from the API's fields. The constraint names the token after
 * which it applies, because thinking is unconstrained. The host checks it before anything is
 * computed. Each SUBMIT then sends it to the units.
 */
#pragma once

#include "serving/gateway/api/api_request.h"
#include "serving/gateway/gateway_state.h"

/* Stores the request's constraint, if it has one, in the leader and asks the host to check it.
 * Requires the leader's asked.mode and an open token stream. Errors are as in intake.c. */
enum status constraint_ask_take(struct gateway *gateway, struct request *leader,
                                const struct api_request *parsed, struct api_error *error) MUST_USE;

/* Handles the host's verdict. STATUS_INVALID: the constraint is rejected; *error has the reason. */
enum status constraint_ask_verified(struct request *leader, const struct record_constrained *record,
                                    struct api_error *error) MUST_USE;
