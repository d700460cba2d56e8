/* SPDX-License-Identifier: Apache-2.0
 * Clients' large requests that wait for the gateway, which reads one in a turn of the loop. Whose is
 * next: serving/policy/share_turns.h, by the bytes of their bodies, since reading them takes time that
 * goes with these; virtual time is the turn of the request that was given last. So who sends many
 * makes others wait for one of his at most, and does not fill the room that there is for all.
 */
#ifndef HOST_REQUEST_TURNS_H
#define HOST_REQUEST_TURNS_H

#include "base/status.h"
#include "contract/record_client.h"
#include "host/wire/record_queue.h"

#define REQUEST_TURNS_NOBODY                                                                       \
    0 /* a client whom nobody knows: each of his requests stands for itself */

struct request_turns {
    struct large_request *first, *last; /* in the order in which they came */
    size_t bytes, bytes_max;
    uint64_t now; /* virtual */
};

/* Copies the request, of that client. STATUS_FULL: he has as much waiting as he may. */
enum status request_turns_put(struct request_turns *turns, uint64_t client,
                              const struct record_client_request *request) MUST_USE;

static inline bool request_turns_any(const struct request_turns *turns) {
    return turns->first != NULL;
}

/* Appends the one whose turn it is to that queue, whatever its bound, and copies nothing. There must be
 * one. */
void request_turns_give(struct request_turns *turns, struct record_queue *to);

/* Drops the request of that connection. False: there is none. */
bool request_turns_drop(struct request_turns *turns, struct connection_id connection);

/* Drops everything. */
void request_turns_clear(struct request_turns *turns);

#endif
