/* SPDX-License-Identifier: Apache-2.0
 * Fair queueing of texts that wait for the tokenizer, and a limit on their memory. The tokenizer
 * processes one text at a time, and a text of 8 MB takes seconds. In order of arrival, a few large
 * texts would delay all others.
 *
 * Fair queueing (Demers, Keshav and Shenker, 1989): the turn of a text is the virtual time at which
 * it would be done if all clients were served at the same time, byte by byte. The smallest turn is
 * next. Virtual time advances by the bytes of each text that had to wait, divided by the number of
 * clients that share the tokenizer. That number is the most clients that waited at the same time
 * since the queue was last empty, because a client that is already done would still be served if
 * all were served together. A text that finds the tokenizer idle overtakes no other text, and does
 * not advance virtual time.
 *
 * As a result, a short text overtakes long ones that arrived before it, and no text waits for ever.
 * A client with many texts gets no larger share than one with few, because the turns of its texts
 * follow one another. A client is an account. Without accounts each request is a client, because
 * all clients of a proxy have the same address.
 *
 * The queue is bounded. A text is admitted if the waiting texts of its client, including this one,
 * take at most half of the remaining memory (Choudhury and Hahne, 1998: dynamic thresholds). So
 * short texts always find memory, regardless of the number of long ones.
 *
 * The compiler of constraints is shared by serving/policy/share_time instead, because the time to
 * compile a constraint does not depend on its length.
 *
 * Accounts share the units of the fleet in the same way, with turns computed from the predicted
 * work of requests. Virtual time is the turn of the request that last got a unit (self-clocked fair
 * queueing: Golestani, 1994), because the units decide how many requests are served at the same
 * time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "contract/record_ledger.h"

#define FAIR_QUEUE_NONE UINT32_MAX

/* The turn of a text that arrives at the virtual time `now`. `before` is the last turn among its
 * client's texts that wait or are in progress; 0: none. */
uint64_t fair_queue_turn(uint64_t now, uint64_t before, size_t bytes);

/* The virtual time after a text of `bytes` bytes. `clients_max` >= 1 is the number of clients that
 * share the tokenizer. */
uint64_t fair_queue_after(uint64_t now, size_t bytes, uint32_t clients_max);

/* The work of a request in tokens: the prompt tokens to compute, plus FAIR_QUEUE_ANSWER for each
 * token of its answers. According to published prices and rates, an answer token takes units about
 * that many times as long. The result is weighted by the priority of the account: high priority has
 * four times the share, low priority a quarter. */
#define FAIR_QUEUE_ANSWER 4
uint64_t fair_queue_work(uint64_t tokens, uint32_t weight, enum account_priority priority);

/* Decides whether a text may wait. `client_bytes`: bytes of its client's waiting texts. */
bool fair_queue_admits(size_t bytes, size_t client_bytes, size_t free_bytes);

/* ---- requests that wait for the gateway ---- */

/* A client here is an API key or, without a known key, an address. Fair queueing orders the
 * clients. Within a client, the shortest request is next, by the same rule on the client's own
 * virtual clock, because many users may share a key or an address. */

struct fair_queue_item {
    uint32_t client; /* index of its client */
    uint64_t turn;   /* on its client's clock: fair_queue_turn(client's now, 0, bytes) */
    uint64_t serial; /* order of arrival */
    size_t bytes;
};

struct fair_queue_client {
    uint64_t start; /* common clock when its last request was served or its first one arrived */
    uint64_t now;   /* clock of the client: the turn of its last served request */
    size_t bytes;   /* of its waiting requests */
    uint32_t next;  /* index of an item; set by fair_queue_next */
};

/* The item to serve next; FAIR_QUEUE_NONE if none waits. *turn_out: the new common clock. */
uint32_t fair_queue_next(const struct fair_queue_item *items, uint32_t count,
                         struct fair_queue_client *clients, uint32_t client_count,
                         uint64_t *turn_out);

/* The item to drop when the queue is full and client `newcomer` adds one of `bytes`: the last item
 * of the client with the most waiting bytes (longest queue drop). FAIR_QUEUE_NONE if the newcomer's
 * client would have as many; the new request is then refused. */
uint32_t fair_queue_dropped(const struct fair_queue_item *items, uint32_t count,
                            const struct fair_queue_client *clients, uint32_t client_count,
                            uint32_t newcomer, size_t bytes);
