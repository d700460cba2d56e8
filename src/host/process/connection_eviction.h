/* SPDX-License-Identifier: Apache-2.0
 * Chooses the client to disconnect when connections or memory run out, while its request is not
 * complete or its answer is not sent completely. One measure serves all cases: the time since which
 * a client is idle. It starts when the connection, its body or its answer's end starts. Received
 * bytes of a body and sent bytes of a whole answer advance it, each by its time at
 * EVICT_BYTES_PER_SECOND. So connections that wait, that send or read very slowly, or that stop in
 * a body all become idle alike. Neither a byte now and then nor a burst before a silence helps.
 *
 * A client is evicted only after EVICT_IDLE_NS of being idle, so new clients are safe from those
 * after them, and only while its request is not processed. One exception: an owner (an API key, or
 * a network) with more than half of all connections, or of the memory of all bodies, yields to
 * other owners at any time. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVICT_IDLE_NS ((int64_t)1000000000)
#define EVICT_BYTES_PER_SECOND 8192
#define EVICT_SMALL_BODY_BYTES ((size_t)64 << 10)
#define EVICT_SMALL_SHARE 8 /* small bodies have 1 / EVICT_SMALL_SHARE of the memory */

#define EVICT_BUSY INT64_MAX
#define EVICT_NONE UINT32_MAX

struct evict_client {
    int64_t idle_since_ns; /* EVICT_BUSY: its request is processed, or the slot is free */
    size_t body_bytes;     /* memory of an incomplete body */
    size_t answer_bytes;   /* memory of a finished answer that is not sent yet */
    uint64_t network;      /* its address: connection_eviction_network */
    uint64_t owner;        /* the key or network that it counts for; 0: the slot is free */
    bool is_bound; /* counts against its network's limit: idle, or sending, without a known key
                    */
};

/* An IPv4 address, or the first 64 bits of an IPv6 one (a single user has as many addresses as they
 * like); for IPv4 in IPv6 the former. `address`: 4 or 16 bytes, network order. */
uint64_t connection_eviction_network(const uint8_t *address, size_t count);

/* The new idle_since_ns of a client that was idle since `since_ns` and has just sent so many bytes
 * of its body, or read so many of its answer. */
int64_t connection_eviction_credit(int64_t since_ns, size_t bytes, int64_t now_ns);

/* The client to evict for its connection, of clients[count]; EVICT_NONE: none can be. */
uint32_t connection_eviction_idlest(const struct evict_client *clients, uint32_t count,
                                    int64_t now_ns);

/* The client of that network to evict, if it has more than bound_max; EVICT_NONE: none has to be,
 * or can be. */
uint32_t connection_eviction_of_network(const struct evict_client *clients, uint32_t count,
                                        uint64_t network, uint32_t bound_max, int64_t now_ns);

/* The client to evict for the memory of its body, other than `except`; EVICT_NONE: none can be. */
uint32_t connection_eviction_body(const struct evict_client *clients, uint32_t count,
                                  uint32_t except, int64_t now_ns);

/* The client to evict for the memory of its answer, likewise. */
uint32_t connection_eviction_answer(const struct evict_client *clients, uint32_t count,
                                    uint32_t except, int64_t now_ns);

/* For the case that no client is idle for long enough: the idlest client of the owner that has more
 * than half of all connections or bytes of bodies, among those without a request in progress and
 * without an answer to be sent. EVICT_NONE: there is no such owner, or it is the newcomer. */
enum evict_share { EVICT_PLACES, EVICT_BODIES };
uint32_t connection_eviction_of_crowd(const struct evict_client *clients, uint32_t count,
                                      enum evict_share what, uint64_t newcomer);

/* True if there is room for `more` bytes of a body while `held` of `held_max` are in use.
 * `body_bytes`: its total length, or its length so far if the total is unknown. The last share is
 * reserved for small bodies. */
bool connection_eviction_has_room(size_t held, size_t held_max, size_t more, size_t body_bytes);
