/* SPDX-License-Identifier: Apache-2.0
 * The constraint of an answer's text, from the parsed request to the verdict. Builds a constraint
 * (serving/constraint/constraint.h) from the API's fields; it also says after which tokens it
 * applies, because thinking is free. The host checks the constraint before anything is computed.
 * Each SUBMIT then sends it to the units.
 */
#pragma once

#include "serving/gateway/api/api_request.h"
#include "serving/gateway/gateway_state.h"

/* Stores the constraint in the leader, if there is one, and asks the host to check it. Requires the
 * leader's asked.mode and an open token stream. STATUS_FULL, STATUS_INVALID: as in intake.c. */
enum status constraint_ask_take(struct gateway *gateway, struct request *leader,
                                const struct api_request *parsed, struct api_error *error) MUST_USE;

/* Handles the host's verdict. STATUS_INVALID: the constraint is rejected, *error says why. */
enum status constraint_ask_judged(struct request *leader, const struct record_constrained *record,
                                  struct api_error *error) MUST_USE;
