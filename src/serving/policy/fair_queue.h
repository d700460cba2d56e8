/* SPDX-License-Identifier: Apache-2.0
 * Fair queueing of long texts to be tokenized, and the limit of those that wait. One text is
 * processed at a time, and one of 8 MB takes seconds: first come, first served would let a few
 * large ones delay all others.
 *
 * Fair queueing (Demers, Keshav and Shenker, 1989): the turn of a text is the virtual time at which
 * it would be done if all clients were served at the same time, byte by byte; the smallest turn is
 * next. Virtual time advances by the bytes of each text that had to wait, divided by the clients
 * that share the tokenizer. That is the largest number that waited at the same time since the queue
 * was last empty, because a client that is done earlier would still be served if all were served
 * together. A text that finds the tokenizer idle passes no other, and virtual time stays.
 *
 * So a short text passes the long ones that arrived before it, no text waits for ever, and a client
 * with many texts gets no more of the tokenizer than one with few, because its turns follow each
 * other. A client is an account. Without accounts each request is a client, because all clients of
 * one proxy have the same address.
 *
 * The queue is bounded: a text is admitted if it takes, together with its client's waiting texts,
 * at most half of the remaining memory (Choudhury and Hahne, 1998: dynamic thresholds). So there is
 * always room for short ones, however many long ones there are.
 *
 * The cost of compiling a constraint does not follow from its length: serving/policy/share_time
 * shares the compiler.
 *
 * Accounts share the units in the same way. A request's turn is computed from its predicted work,
 * and virtual time is the turn of the request that last got a unit (self-clocked fair queueing:
 * Golestani, 1994), because the units choose how many are served at the same time.
 */
#ifndef SERVING_POLICY_FAIR_QUEUE_H
#define SERVING_POLICY_FAIR_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "contract/record_ledger.h"

#define FAIR_QUEUE_NONE UINT32_MAX

/* The turn of a text that arrives at the virtual time `now`. `before`: the last turn of its
 * client's texts that wait or are in progress; 0: none. */
uint64_t fair_queue_turn(uint64_t now, uint64_t before, size_t bytes);

/* Virtual time after a text of so many bytes. `clients_max` (>= 1): see above. */
uint64_t fair_queue_after(uint64_t now, size_t bytes, uint32_t clients_max);

/* The work of a request in tokens: those of its prompts that have to be computed, and
 * FAIR_QUEUE_ANSWER for each of its answers, which take units about so much longer according to
 * published prices and published rates of nodes. The result is weighted by the account's share:
 * high priority has four times the share, low priority a quarter, so more but never all. */
#define FAIR_QUEUE_ANSWER 4
uint64_t fair_queue_work(uint64_t tokens, uint32_t weight, enum account_priority priority);

/* Decides whether a text may wait. `client_bytes`: of its client's texts that wait already. */
bool fair_queue_admits(size_t bytes, size_t client_bytes, size_t free_bytes);

/* ---- requests that wait for the gateway ---- */

/* A client here is an API key or, without a known key, an address. Clients take turns by fair
 * queueing. Within a client the shortest request is next, by the same rule on the client's own
 * virtual clock, because many users may share one key or one address. */

struct fair_queue_item {
    uint32_t client; /* index of its client */
    uint64_t turn;   /* on its client's clock: fair_queue_turn(client's now, 0, bytes) */
    uint64_t serial; /* the smaller arrived first */
    size_t bytes;
};

struct fair_queue_client {
    uint64_t start; /* the common clock when its last request was served or its first one arrived */
    uint64_t now;   /* its own clock: the turn of its last served request */
    size_t bytes;   /* of its waiting requests */
    uint32_t next;  /* index of an item; set by fair_queue_next */
};

/* The item to be served next; FAIR_QUEUE_NONE: no item waits. *turn_out: the common clock then. */
uint32_t fair_queue_next(const struct fair_queue_item *items, uint32_t count,
                         struct fair_queue_client *clients, uint32_t client_count,
                         uint64_t *turn_out);

/* The item to drop for another one of `bytes` of that client when there is no room: the last one of
 * the client with most waiting (longest queue drop). FAIR_QUEUE_NONE: the newcomer's client would
 * have as much, so the newcomer is refused. */
uint32_t fair_queue_dropped(const struct fair_queue_item *items, uint32_t count,
                            const struct fair_queue_client *clients, uint32_t client_count,
                            uint32_t newcomer, size_t bytes);

#endif
