/* SPDX-License-Identifier: Apache-2.0
 * What an answer's text has to be, from the parsed request to the verdict. The form of the API's
 * fields becomes a constraint (serving/constraint/constraint.h), which says behind which tokens the
 * form holds: thinking is free. It goes to the host, who says whether it can be held, before
 * anything is computed; then with each SUBMIT to the units.
 */
#ifndef SERVING_GATEWAY_CONSTRAINT_ASK_H
#define SERVING_GATEWAY_CONSTRAINT_ASK_H

#include "serving/gateway/api/api_request.h"
#include "serving/gateway/gateway_state.h"

/* The leader is asked to keep the constraint, if there is one, and its verdict is asked for. Its
 * asked.mode is there, and its token stream is open. STATUS_FULL, STATUS_INVALID: as in intake.c. */
enum status constraint_ask_take(struct gateway *gateway, struct request *leader,
                                const struct api_request *parsed, struct api_error *error) MUST_USE;

/* The host's verdict. STATUS_INVALID: *error says why it cannot be held. */
enum status constraint_ask_judged(struct request *leader, const struct record_constrained *record,
                                  struct api_error *error) MUST_USE;

#endif
