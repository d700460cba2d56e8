/* SPDX-License-Identifier: Apache-2.0
 * The fair queue of clients' requests that wait for the gateway. The policy
 * (serving/policy/fair_queue.h) decides which is next, and which is dropped if there is no room. A
 * client with many requests delays another client by at most one request, and uses no room that
 * others need. A client is an API key that the gateway knows, or an address.
 *
 * The cost of a request is its size in bytes, at least bytes_least, because the time to read it is
 * proportional to its size.
 */
#pragma once

#include "base/status.h"
#include "contract/record_client.h"
#include "host/wire/record_queue.h"
#include "serving/policy/fair_queue.h"

struct request_turns {
    struct fair_queue_item *items;     /* [count], unordered; all arrays have room for `capacity` */
    struct turns_request *requests;    /* [count], of the items */
    struct fair_queue_client *clients; /* [client_count] clients with requests in the queue */
    uint64_t *client_ids;              /* [client_count] */
    uint32_t count, client_count, capacity;
    size_t bytes, bytes_max, bytes_least;
    uint64_t now; /* the queue's virtual time: the turn of the last request that was taken */
    uint64_t serial;
};

/* Copies a request of `client` into the queue. STATUS_FULL: there is no room, and this client uses
 * the most. A request of another client may be dropped for it: *dropped_out is that request's
 * connection, which the caller must answer, or 0. While *dropped_out is not 0 and the status is
 * STATUS_FULL, the caller repeats the call. */
enum status request_turns_put(struct request_turns *turns, uint64_t client,
                              const struct record_client_request *request,
                              struct connection_id *dropped_out) MUST_USE;

static inline bool request_turns_any(const struct request_turns *turns) {
    return turns->count != 0;
}

/* The connection of the next request. The queue must not be empty. */
struct connection_id request_turns_next(struct request_turns *turns);

/* Moves the next request to `to` without copying, even beyond its bound. The queue must not be
 * empty. */
void request_turns_give(struct request_turns *turns, struct record_queue *to);

/* Drops the request of a connection. Returns false if there is none. */
bool request_turns_drop(struct request_turns *turns, struct connection_id connection);

/* Drops all requests and frees the memory. */
void request_turns_clear(struct request_turns *turns);
