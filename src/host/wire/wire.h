/* SPDX-License-Identifier: Apache-2.0
 * Records between processes: a gateway listens, units connect. A ZeroMQ ROUTER on the one side, a
 * DEALER on the other; one record is one message, over `ipc://PATH` or `tcp://HOST:PORT`, driven by
 * the event loop's one thread.
 *
 * Both sides shake hands first (magic, versions). The wire translates records for a peer of the
 * previous version; its users do not notice.
 *
 * What it protects: whatever comes later must be a valid record of a kind that this side takes, and a
 * peer that sends anything else is dropped with one log line. A connection that ends, or is silent for
 * too long, is reported once, as the loss of its peer; the number of a peer is never used again. Queues are
 * bounded: STATUS_FULL leaves the record with its sender.
 *
 * A side that connects does so for ever, and comes back as a new peer after each loss.
 */
#ifndef HOST_WIRE_WIRE_H
#define HOST_WIRE_WIRE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/status.h"
#include "contract/record.h"
#include "host/wire/wire_keys.h"

struct event_base;
struct wire;

#define WIRE_MESSAGE_BYTES_MAX ((size_t)8 << 20)
#define WIRE_PEERS_MAX 256 /* that have greeted, those that are being ended among them */

_Static_assert(WIRE_PEERS_MAX >= 2 * LIMIT_FLEET_UNITS, "all units may come back at once");
_Static_assert(WIRE_MESSAGE_BYTES_MAX >= LIMIT_CONTEXT * sizeof(uint32_t) + 65536,
               "the longest prompt fits into a message");

struct wire_options {
    const char *address;          /* lives as long as the wire */
    bool listens;                 /* else: connects */
    bool plain_anywhere;          /* tcp beyond this machine may do without keys */
    const struct wire_keys *keys; /* NULL: plain */
    uint64_t kinds;               /* of records that a peer may send: a bit for each */
    void *context;                /* of the calls that follow, all from the loop */
    void (*joined)(void *context, uint32_t peer);
    /* `record` is valid, aligned, and gone when this returns. */
    void (*take)(void *context, uint32_t peer, const struct record *record);
    void (*lost)(void *context, uint32_t peer);
    /* False: leave what comes with its senders until wire_resume. */
    bool (*may_take)(void *context);
};

static inline uint64_t wire_kind(enum record_kind kind) {
    return (uint64_t)1 << kind;
}

/* The next of addresses with commas between; false: there is none left. */
bool wire_next_address(struct bytes *rest, struct bytes *address_out);

/* STATUS_INVALID: the address is none, or needs keys. STATUS_IO: it cannot be listened on. */
enum status wire_open(const struct wire_options *options, struct event_base *base,
                      struct wire **wire_out, struct error *error) MUST_USE;
void wire_close(struct wire *wire);

/* Where others connect: the address, with the port that was chosen. */
const char *wire_address(const struct wire *wire);

/* `number` is a peer's, as joined tells it. STATUS_FULL: too much is on its way already, the caller
 * keeps the record. STATUS_GONE: the peer is lost, or about to be. */
enum status wire_send(struct wire *wire, uint32_t number, const struct record *record) MUST_USE;

/* A side that listens: ends with a peer, with one log line. */
void wire_drop(struct wire *wire, uint32_t number, const char *why);

/* Takes what was left while may_take said no. */
void wire_resume(struct wire *wire);

#endif
