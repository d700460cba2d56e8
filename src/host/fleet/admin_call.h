/* SPDX-License-Identifier: Apache-2.0
 * One question after another to a gateway's operator's side, each waited for: what a fleet's manager
 * reads of a gateway and asks of it.
 */
#ifndef HOST_FLEET_ADMIN_CALL_H
#define HOST_FLEET_ADMIN_CALL_H

#include "base/bytes.h"
#include "base/status.h"

struct admin_call;

enum status admin_call_open(const char *url, struct admin_call **call_out,
                            struct error *error) MUST_USE;
void admin_call_close(struct admin_call *call);

/* GET, or POST with a body where that is not NULL; the answer's body lives until the next question.
 * An error names the gateway and what it said. */
enum status admin_call_ask(struct admin_call *call, const char *path, const char *body,
                           struct bytes *answer_out, struct error *error) MUST_USE;

#endif
