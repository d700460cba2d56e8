/* SPDX-License-Identifier: Apache-2.0
 * From the unit's tokens to the client's text: as a stream, one event for the tokens of one step,
 * or gathered into a whole answer. Ends a request, whichever way it ends.
 */
#ifndef SERVING_GATEWAY_ANSWER_H
#define SERVING_GATEWAY_ANSWER_H

#include "serving/gateway/request.h"

/* From the unit of that place in the fleet's table; what is said of requests that it does not have
 * (any more) goes unheard. STATUS_INVALID: it cannot be true. */
enum status answer_tokens(struct gateway *gateway, uint32_t unit,
                          const struct record_tokens *record, int64_t now_ns) MUST_USE;

enum status answer_scores(struct gateway *gateway, uint32_t unit,
                          const struct record_scores *record) MUST_USE;

enum status answer_finished(struct gateway *gateway, uint32_t unit,
                            const struct record_finished *record, int64_t now_ns) MUST_USE;

/* The last word on a request that must_end, as dispatch_end has put it; it leaves the queue.
 * STATUS_FULL: not done. */
enum status answer_end(struct gateway *gateway, struct request *request, int64_t now_ns) MUST_USE;

/* The finish reason of an answer that has ended, as clients are told it. */
const char *answer_finish(const struct request *request);

/* The client has closed its connection. */
enum status answer_client_gone(struct gateway *gateway,
                               const struct record_client_gone *record) MUST_USE;

/* The server ends: a request that has no answer yet is to get an error that says so. */
enum status answer_shut_down(struct gateway *gateway, struct request *leader) MUST_USE;

/* Tells a client that waits for its first token that we are still here. */
enum status answer_keep_alive(struct gateway *gateway, struct request *request) MUST_USE;

#endif
