/* SPDX-License-Identifier: Apache-2.0
 * The end of a request: a unit's FINISHED, a client that leaves, a server that ends. Whichever way
 * a choice ends, it is told to its client here, and counted once; the last choice to end ends the
 * request as a whole.
 */
#ifndef SERVING_GATEWAY_ENDING_H
#define SERVING_GATEWAY_ENDING_H

#include "serving/gateway/gateway_state.h"

/* From the unit of that place in the fleet's table; what is said of requests that it does not have
 * (any more) goes unheard. STATUS_INVALID: it cannot be true. */
enum status ending_finished(struct gateway *gateway, uint32_t unit,
                            const struct record_finished *record, int64_t now_ns) MUST_USE;

/* Ends those that no unit has any more. False: the outbox has no room for what comes next. */
bool ending_run(struct gateway *gateway, int64_t now_ns) MUST_USE;

/* Tells the ends of answers whose entries are written down, as far as the outbox has room; and true
 * if there are such. */
void ending_settled(struct gateway *gateway);
bool ending_wants(const struct gateway *gateway);

/* The client has closed its connection. */
enum status ending_client_gone(struct gateway *gateway, const struct record_client_gone *record,
                               int64_t now_ns) MUST_USE;

/* The server ends, and so do all choices that wait for a unit or are at one. */
enum status ending_shut_down(struct gateway *gateway, struct request *leader) MUST_USE;

#endif
