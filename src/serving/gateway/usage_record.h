/* SPDX-License-Identifier: Apache-2.0
 * The result of each request, as a USAGE for the ledger and for the log of requests: exactly one
 * for each CLIENT_REQUEST of a path that has a dialect, when the request has ended, and before the
 * last bytes of its answer. Refused requests have one, too, and requests that ended after their
 * client left.
 *
 * With gateway_options.settles the end of a charged answer waits until its entry is committed
 * (COMMITTED): no client ever sees the end of an answer that the ledger could still lose. Refusals
 * cost nothing and never wait. The number of charged entries that are not committed yet is limited:
 * when the ledger is too far behind, no new request is taken.
 */
#pragma once

#include "serving/gateway/gateway_state.h"

/* No USAGE takes more room. */
#define USAGE_BYTES_MAX ((size_t)1024)

struct usage_fate { /* how a request has ended */
    uint32_t http_status;
    bool is_charged;
    const char *end;        /* the reason: "stop", "length", "client_gone", an error's code */
    enum usage_limit limit; /* the limit that was exceeded */
    struct api_usage usage; /* the charged usage; zeros if nothing is charged */
};

/* Arena bytes that suffice for usage_record_open. */
size_t usage_record_memory_bytes(uint32_t requests_max);
enum status usage_record_open(struct gateway *gateway, struct arena *arena) MUST_USE;

/* Puts the entry of the leader's request. STATUS_FULL: not put. */
enum status usage_record_put(struct gateway *gateway, const struct request *leader,
                             const struct usage_fate *fate, int64_t now_ns) MUST_USE;

/* Puts the entry of the CLIENT_REQUEST that is being handled and is answered at once; none if its
 * path has no dialect. STATUS_FULL: not put. */
enum status usage_record_put_refused(struct gateway *gateway, uint32_t http_status,
                                     const struct api_error *error) MUST_USE;

/* For what is put behind an entry and finds no room: both are taken back, to be put again. */
struct usage_mark usage_record_mark(const struct gateway *gateway);
void usage_record_take_back(struct gateway *gateway, struct usage_mark mark);

/* The last one put is charged: it is pending until it is committed. */
void usage_record_charge(struct gateway *gateway);

/* All entries up to this one are written down. */
void usage_record_commit(struct gateway *gateway, uint64_t sequence);

/* True if the ledger is so far behind that nothing new may be taken. */
bool usage_record_is_behind(const struct gateway *gateway);
