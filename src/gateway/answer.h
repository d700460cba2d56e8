/* SPDX-License-Identifier: Apache-2.0
 * From the unit's tokens to the client's text: as a stream, one event for the tokens of one step,
 * or gathered into a whole answer. Ends a request, whichever way it ends.
 */
#ifndef GATEWAY_ANSWER_H
#define GATEWAY_ANSWER_H

#include "gateway/request.h"

enum status answer_tokens(struct gateway *gateway, const struct record_tokens *record,
                          int64_t now_ns) MUST_USE;

enum status answer_finished(struct gateway *gateway, const struct record_finished *record,
                            int64_t now_ns) MUST_USE;

/* The client has closed its connection. */
enum status answer_client_gone(struct gateway *gateway,
                               const struct record_client_gone *record) MUST_USE;

/* Tells a client that waits for its first token that we are still here. */
enum status answer_keep_alive(struct gateway *gateway, struct request *request) MUST_USE;

#endif
