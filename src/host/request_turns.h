/* SPDX-License-Identifier: Apache-2.0
 * Clients' requests that wait for the gateway, which reads them in turns. The policy
 * (serving/policy/fair_queue.h) decides which is next, and which is dropped if there is no room. A client with many
 * requests makes another one wait for one of them at most, and takes no room that others need. A
 * client is an API key that the gateway knows, or an address.
 *
 * A request counts by its bytes, since reading it takes time that goes with them, and as bytes_least
 * at least.
 */
#pragma once

#include "base/status.h"
#include "contract/record_client.h"
#include "host/wire/record_queue.h"
#include "serving/policy/fair_queue.h"

struct request_turns {
    struct fair_queue_item *items;     /* [count], in no order; [capacity], as all below */
    struct turns_request *requests;    /* [count], of the items */
    struct fair_queue_client *clients; /* [client_count] that have requests here */
    uint64_t *client_ids;              /* [client_count] */
    uint32_t count, client_count, capacity;
    size_t bytes, bytes_max, bytes_least;
    uint64_t now; /* the common clock: the turn of the request that was given last */
    uint64_t serial;
};

/* Copies the request, of that client. STATUS_FULL: there is no room, and the client has most of it.
 * A request of another client may make way: *dropped_out is its connection, which has to be
 * answered, or 0. The caller repeats the call as long as *dropped_out is not 0 and it is FULL. */
enum status request_turns_put(struct request_turns *turns, uint64_t client,
                              const struct record_client_request *request,
                              struct connection_id *dropped_out) MUST_USE;

static inline bool request_turns_any(const struct request_turns *turns) {
    return turns->count != 0;
}

/* The connection of the request that is next. There must be one. */
struct connection_id request_turns_next(struct request_turns *turns);

/* Appends the next request to that queue, whatever its bound, and copies nothing. There must be
 * one. */
void request_turns_give(struct request_turns *turns, struct record_queue *to);

/* Drops the request of that connection. False: there is none. */
bool request_turns_drop(struct request_turns *turns, struct connection_id connection);

/* Drops everything, and frees the memory. */
void request_turns_clear(struct request_turns *turns);
