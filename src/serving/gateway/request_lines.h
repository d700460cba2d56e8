/* SPDX-License-Identifier: Apache-2.0
 * The requests that wait for a unit: one line for each account, first come first served, and one
 * for requests without an account. Each request has a turn (serving/policy/fair_queue); the
 * smallest turn at the front of any line is next. Without accounts that is the order of arrival.
 *
 * A request that has to wait again keeps its turn: it was counted already.
 */
#pragma once

#include "serving/gateway/request.h"

/* Arena bytes that suffice for request_lines_open. */
size_t request_lines_bytes(uint32_t account_count);
enum status request_lines_open(struct request_lines *lines, struct arena *arena,
                               uint32_t account_count) MUST_USE;

/* The turn of a new request of the account, with so much work. */
uint64_t request_lines_turn(struct request_lines *lines, uint32_t account, uint64_t work);

/* The work ahead of a new request with so much work. */
struct request_ahead {
    uint64_t tokens;     /* of requests with earlier turns */
    uint64_t all_tokens; /* of all waiting requests */
    bool is_over_share;  /* the account has more waiting than others have on average, by their
                        * shares */
};
struct request_ahead request_lines_ahead(const struct request_lines *lines, uint32_t account,
                                         uint64_t work);

/* Only for serving/gateway/request.c. */
void request_lines_add(struct request_lines *lines, struct request *request);
void request_lines_take_out(struct request_lines *lines, struct request *request);

/* A request has got a unit. Virtual time advances to its turn, but no further than the smallest
 * turn that it passed, so a request that overtakes others takes nothing from any account's share.
 * Returns its turn from now on. */
uint64_t request_lines_serve(struct request_lines *lines, const struct request *request);

/* Between a begin and an end, returns each waiting request once, in the order of turns; NULL after
 * the last. None may be added meanwhile; those already returned may leave. */
void request_lines_begin(struct request_lines *lines);
struct request *request_lines_next(struct request_lines *lines);
/* No unit has room for the request just returned. Others may still fit. */
void request_lines_pass(struct request_lines *lines, const struct request *request);
void request_lines_end(struct request_lines *lines);

/* check()s that lines, turns and counts agree. Slow. */
void request_lines_audit(const struct request_lines *lines);
