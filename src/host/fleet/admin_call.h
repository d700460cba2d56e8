/* SPDX-License-Identifier: Apache-2.0
 * Synchronous HTTP calls to a gateway's admin listener, for the fleet manager.
 */
#pragma once

#include "base/bytes.h"
#include "base/status.h"

struct admin_call;

enum status admin_call_open(const char *url, struct admin_call **call_out,
                            struct error *error) MUST_USE;
void admin_call_close(struct admin_call *call);

/* Sends GET, or POST if `body` is not NULL, and waits for the response. The response's body lives
 * until the next call. An error names the gateway and its message. */
enum status admin_call_ask(struct admin_call *call, const char *path, const char *body,
                           struct bytes *answer_out, struct error *error) MUST_USE;
