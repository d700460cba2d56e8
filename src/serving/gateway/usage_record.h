/* SPDX-License-Identifier: Apache-2.0
 * USAGE records, which report each request's result to the ledger and to the request log. There is
 * exactly one for each CLIENT_REQUEST of a path with a dialect. It is sent when the request has
 * ended, before the last bytes of its answer. Refused requests, and requests that ended after their
 * client left, have one, too.
 *
 * With gateway_options.settles, the end of a charged answer waits until its entry is committed
 * (COMMITTED), so no client sees the end of an answer that the ledger could still lose. Refusals
 * cost nothing and never wait. The number of charged entries that are not committed yet is limited.
 * If the ledger is too far behind, no new requests are taken.
 */
#pragma once

#include "serving/gateway/gateway_state.h"

/* The most outbox bytes of a USAGE. */
#define USAGE_BYTES_MAX ((size_t)1024)

struct usage_fate { /* how a request has ended */
    uint32_t http_status;
    bool is_charged;
    const char *end;        /* the reason: "stop", "length", "client_gone", an error's code */
    enum usage_limit limit; /* the limit that was exceeded */
    struct api_usage usage; /* usage to charge; zeros if nothing is charged */
};

/* Arena bytes that suffice for usage_record_open. */
size_t usage_record_memory_bytes(uint32_t requests_max);
enum status usage_record_open(struct gateway *gateway, struct arena *arena) MUST_USE;

/* Puts the entry of the leader's request. STATUS_FULL: nothing was put. */
enum status usage_record_put(struct gateway *gateway, const struct request *leader,
                             const struct usage_fate *fate, int64_t now_ns) MUST_USE;

/* Puts the entry of the CLIENT_REQUEST that is being handled and refused at once, unless its path
 * has no dialect. STATUS_FULL: nothing was put. */
enum status usage_record_put_refused(struct gateway *gateway, uint32_t http_status,
                                     const struct api_error *error) MUST_USE;

/* Roll back an entry if a record behind it finds no room in the outbox. Both are put again
 * later. */
struct usage_mark usage_record_mark(const struct gateway *gateway);
void usage_record_take_back(struct gateway *gateway, struct usage_mark mark);

/* Marks the last entry as charged. It is pending until it is committed. */
void usage_record_charge(struct gateway *gateway);

/* The ledger has committed all entries up to this one. */
void usage_record_commit(struct gateway *gateway, uint64_t sequence);

/* True if the ledger is so far behind that no new requests may be taken. */
bool usage_record_is_behind(const struct gateway *gateway);
