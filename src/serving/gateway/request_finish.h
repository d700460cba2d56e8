/* SPDX-License-Identifier: Apache-2.0
 * The end of a request, by a unit's FINISHED, a client that leaves, or the server's shutdown. The
 * end of each choice is sent to the client and counted once here. The last choice to end also ends
 * the request as a whole.
 */
#pragma once

#include "serving/gateway/gateway_state.h"

/* Handles FINISHED from the unit with this index in the fleet's table. Ignores records of requests
 * that the unit does not have, or no longer has. STATUS_INVALID: no correct unit sends such a
 * record. */
enum status request_finish_finished(struct gateway *gateway, uint32_t unit,
                                    const struct record_finished *record, int64_t now_ns) MUST_USE;

/* Ends the requests in FINISHING. False: the outbox is full. */
bool request_finish_run(struct gateway *gateway, int64_t now_ns) MUST_USE;

/* request_finish_commit sends the ends of answers that the ledger has committed, as far as the
 * outbox has room. request_finish_wants: there are such answers. */
void request_finish_commit(struct gateway *gateway);
bool request_finish_wants(const struct gateway *gateway);

/* Handles a client that has closed its connection. STATUS_FULL: nothing has changed. */
enum status request_finish_client_gone(struct gateway *gateway,
                                       const struct record_client_gone *record,
                                       int64_t now_ns) MUST_USE;

/* Ends all choices that wait for a unit or are at one, because the server shuts down. */
enum status request_finish_shut_down(struct gateway *gateway, struct request *leader) MUST_USE;
