/* SPDX-License-Identifier: Apache-2.0
 * The end of a request: a unit's FINISHED, a client that leaves, a server that shuts down. Every
 * end of a choice is sent to its client here, and counted once. The last choice to end ends the
 * request as a whole.
 */
#pragma once

#include "serving/gateway/gateway_state.h"

/* Handles a record from the unit at that place of the fleet's table. Ignores records of requests
 * that the unit does not have (any more). STATUS_INVALID: the record cannot be true. */
enum status request_finish_finished(struct gateway *gateway, uint32_t unit,
                                    const struct record_finished *record, int64_t now_ns) MUST_USE;

/* Ends the requests that no unit has any more. False: the outbox is full. */
bool request_finish_run(struct gateway *gateway, int64_t now_ns) MUST_USE;

/* Sends the ends of answers with written entries, as far as the outbox has room. request_finish_wants:
 * there are such. */
void request_finish_commit(struct gateway *gateway);
bool request_finish_wants(const struct gateway *gateway);

/* The client has closed its connection. */
enum status request_finish_client_gone(struct gateway *gateway,
                                       const struct record_client_gone *record,
                                       int64_t now_ns) MUST_USE;

/* The server shuts down: ends all choices that wait for a unit or are at one. */
enum status request_finish_shut_down(struct gateway *gateway, struct request *leader) MUST_USE;
