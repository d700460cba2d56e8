/* SPDX-License-Identifier: Apache-2.0
 * Records between processes: a gateway listens, units connect. The listener is a ZeroMQ ROUTER, the
 * other side a DEALER. One record is one message, over `ipc://PATH` or `tcp://HOST:PORT`, driven by
 * the event loop's only thread.
 *
 * Both sides shake hands first (magic, versions). The wire translates records for a peer of the
 * previous version; its users need not know.
 *
 * Protection: every later message must be a valid record of a kind that this side accepts. A peer
 * that sends anything else is dropped with one log line. A connection that ends, or is silent for
 * too long, is reported once, as the loss of its peer. The number of a peer is never reused. Queues
 * are bounded: with STATUS_FULL the sender keeps the record.
 *
 * A connecting side reconnects for ever, as a new peer after each loss.
 */
#pragma once

#include <stdbool.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/status.h"
#include "contract/record.h"
#include "host/wire/wire_keys.h"

struct event_base;
struct wire;

#define WIRE_MESSAGE_BYTES_MAX ((size_t)8 << 20)
#define WIRE_PEERS_MAX 256 /* limit of peers after the greeting, including those being closed */

_Static_assert(WIRE_PEERS_MAX >= 2 * LIMIT_FLEET_UNITS, "all units may come back at once");
_Static_assert(WIRE_MESSAGE_BYTES_MAX >= LIMIT_CONTEXT * sizeof(uint32_t) + 65536,
               "the longest prompt fits into a message");

struct wire_options {
    const char *address;          /* the caller keeps it while the wire is open */
    bool listens;                 /* false: connects */
    bool plain_anywhere;          /* allow tcp beyond this machine without keys */
    const struct wire_keys *keys; /* NULL: no encryption */
    uint64_t kinds;               /* kinds that a peer may send, one bit each */
    void *context;                /* argument of the callbacks, which the loop calls */
    void (*joined)(void *context, uint32_t peer);
    /* `record` is valid and aligned, until the callback returns. */
    void (*take)(void *context, uint32_t peer, const struct record *record);
    void (*lost)(void *context, uint32_t peer);
    /* False: the wire reads nothing until wire_resume. */
    bool (*may_take)(void *context);
};

static inline uint64_t wire_kind(enum record_kind kind) {
    return (uint64_t)1 << kind;
}

/* Gets the next address of a comma-separated list. Returns false if there is none. */
bool wire_next_address(struct bytes *rest, struct bytes *address_out);

/* Returns STATUS_INVALID if the address is invalid or needs keys, STATUS_IO if listening on it
 * fails. */
enum status wire_open(const struct wire_options *options, struct event_base *base,
                      struct wire **wire_out, struct error *error) MUST_USE;
void wire_close(struct wire *wire);

/* The address for peers, with the port in use. */
const char *wire_address(const struct wire *wire);

/* Sends a record to the peer that `joined` reported as `number`. Returns STATUS_FULL if too much is
 * queued; the caller keeps the record. Returns STATUS_GONE if the peer is lost, or about to be. */
enum status wire_send(struct wire *wire, uint32_t number, const struct record *record) MUST_USE;

/* For a listening side: disconnects a peer, with one log line. */
void wire_drop(struct wire *wire, uint32_t number, const char *why);

/* Reads messages again after may_take returned false. */
void wire_resume(struct wire *wire);
