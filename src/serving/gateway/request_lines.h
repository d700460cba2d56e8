/* SPDX-License-Identifier: Apache-2.0
 * The queue of requests that wait for a unit. Each account has a FIFO line, and requests without an
 * account share one. Each request has a turn, its virtual finish time in fair queueing
 * (serving/policy/fair_queue). The smallest turn at the front of any line is next. Without accounts
 * that is the order of arrival.
 *
 * A request that has to wait again keeps its turn, because it was counted already.
 */
#pragma once

#include "serving/gateway/request.h"

/* Arena bytes that suffice for request_lines_open. */
size_t request_lines_bytes(uint32_t account_count);
enum status request_lines_open(struct request_lines *lines, struct arena *arena,
                               uint32_t account_count) MUST_USE;

/* Assigns the turn of a new request of the account. `work` is its weighted work. */
uint64_t request_lines_turn(struct request_lines *lines, uint32_t account, uint64_t work);

/* The work ahead of a new request with this weighted work. */
struct request_ahead {
    uint64_t tokens;     /* work of requests with earlier turns */
    uint64_t all_tokens; /* work of all waiting requests */
    bool is_over_share;  /* the account has more work waiting, by its share, than the average */
};
struct request_ahead request_lines_ahead(const struct request_lines *lines, uint32_t account,
                                         uint64_t work);

/* The number of waiting requests with earlier turns than a waiting request, at most `most`. Not
 * between a begin and an end. */
uint32_t request_lines_before(const struct request_lines *lines, const struct request *request,
                              uint32_t most);

/* Only for serving/gateway/request.c. */
void request_lines_add(struct request_lines *lines, struct request *request);
void request_lines_take_out(struct request_lines *lines, struct request *request);

/* Call when a request has got a unit. Virtual time advances to its turn, but no further than the
 * smallest turn that it passed, so overtaking takes nothing from any account's share. Returns the
 * request's turn from now on. */
uint64_t request_lines_serve(struct request_lines *lines, const struct request *request);

/* Iterates over the waiting requests in the order of turns, between a begin and an end; NULL after
 * the last. Meanwhile none may be added. Those already returned may leave. */
void request_lines_begin(struct request_lines *lines);
struct request *request_lines_next(struct request_lines *lines);
/* Call if no unit has room for the request just returned. Others may still fit. */
void request_lines_pass(struct request_lines *lines, const struct request *request);
void request_lines_end(struct request_lines *lines);

/* check()s the consistency of lines, turns and counts. Slow. */
void request_lines_audit(const struct request_lines *lines);
