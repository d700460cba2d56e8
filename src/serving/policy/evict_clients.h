/* SPDX-License-Identifier: Apache-2.0
 * Which client has to leave when places or memory run out, before its request has come whole or
 * while it takes its answer. One measure serves all: the time since which a client is idle. It starts
 * when the connection, its body's begin or its answer's end does, and the bytes of a body that come,
 * or of a whole answer that leave, push it on, as far as they pay for the time at
 * EVICT_BYTES_PER_SECOND. So a connection that waits, one that drips, one whose body stands still and
 * one that does not read grow idle alike, and neither a byte now and then nor a burst before a
 * silence helps.
 *
 * A client leaves only after EVICT_IDLE_NS of being idle, so clients that have just come are safe
 * from those that come behind them; and only while its request is not worked on. One exception: an
 * owner (an API key, or a network) with more than half of all places, or of the memory of all bodies,
 * makes way for other owners at any time. Pure.
 */
#ifndef SERVING_POLICY_EVICT_CLIENTS_H
#define SERVING_POLICY_EVICT_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVICT_IDLE_NS ((int64_t)1000000000)
#define EVICT_BYTES_PER_SECOND 8192
#define EVICT_SMALL_BODY_BYTES ((size_t)64 << 10)
#define EVICT_SMALL_SHARE 8 /* 1 / so much of the memory is kept for small bodies */

#define EVICT_BUSY INT64_MAX
#define EVICT_NONE UINT32_MAX

struct evict_client {
    int64_t idle_since_ns; /* EVICT_BUSY: its request is being worked on, or the place is free */
    size_t body_bytes;     /* kept of a body that has not come whole */
    size_t answer_bytes;   /* of an answer that has been made and has not left */
    uint64_t network;      /* where it comes from: evict_clients_network */
    uint64_t owner; /* the client that it counts for: a key or a network; 0: the place is free */
    bool is_bound; /* counts among its network's: idle, or sending, with nothing known in its favour
                    */
};

/* An IPv4 address, or the first 64 bits of an IPv6 one (its network: one house has as many
 * addresses as it likes); of IPv4 in IPv6 the former. `address`: 4 or 16 bytes, network order. */
uint64_t evict_clients_network(const uint8_t *address, size_t count);

/* Since when a client is idle that was so since `since_ns` and has just sent so much of its body, or
 * taken so much of its answer. */
int64_t evict_clients_credit(int64_t since_ns, size_t bytes, int64_t now_ns);

/* Who gives up a place, of clients[count]; EVICT_NONE: nobody can. */
uint32_t evict_clients_idlest(const struct evict_client *clients, uint32_t count, int64_t now_ns);

/* Who of that network does, if it has more than bound_max; EVICT_NONE: nobody has to, or can. */
uint32_t evict_clients_of_network(const struct evict_client *clients, uint32_t count,
                                  uint64_t network, uint32_t bound_max, int64_t now_ns);

/* Who gives up the memory of a body, other than `except`; EVICT_NONE: nobody can. */
uint32_t evict_clients_body(const struct evict_client *clients, uint32_t count, uint32_t except,
                            int64_t now_ns);

/* Who gives up the memory of an answer, likewise. */
uint32_t evict_clients_answer(const struct evict_client *clients, uint32_t count, uint32_t except,
                              int64_t now_ns);

/* If no client is idle for long enough: the idlest client of the owner that has more than half of all
 * places or bytes of bodies, among those without a request that is worked on and without an answer
 * that waits to be taken. EVICT_NONE: there is no such owner, or it is the newcomer. */
enum evict_share { EVICT_PLACES, EVICT_BODIES };
uint32_t evict_clients_of_crowd(const struct evict_client *clients, uint32_t count,
                                enum evict_share what, uint64_t newcomer);

/* Is there room for `more` bytes of a body, where `held` of `held_max` are taken? `body_bytes`:
 * what it will have as a whole, or has so far if that is not known. Small ones always find the last
 * share free of large ones. */
bool evict_clients_has_room(size_t held, size_t held_max, size_t more, size_t body_bytes);

#endif
