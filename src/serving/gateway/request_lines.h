/* SPDX-License-Identifier: Apache-2.0
 * Those that wait for a unit: each account's stand in a line of their own, first come first, and
 * all who are nobody's in particular in one more. Each has a turn (serving/policy/share_turns), and
 * of all lines the first with the smallest turn is next. Without accounts that is the order of
 * arrival.
 *
 * A request keeps its turn when it has to wait again: it has been reckoned with.
 */
#ifndef SERVING_GATEWAY_REQUEST_LINES_H
#define SERVING_GATEWAY_REQUEST_LINES_H

#include "serving/gateway/request.h"

/* Arena bytes that suffice for request_lines_open. */
size_t request_lines_bytes(uint32_t account_count);
enum status request_lines_open(struct request_lines *lines, struct arena *arena,
                               uint32_t account_count) MUST_USE;

/* The turn of one of the account's that comes now, and is so much work. */
uint64_t request_lines_turn(struct request_lines *lines, uint32_t account, uint64_t work);

/* Before whose turns is one that comes now, and is so much work? */
struct request_ahead {
    uint64_t tokens;     /* of those that wait and have their turns before */
    uint64_t all_tokens; /* of all that wait */
    bool
        is_over_share; /* its account has more waiting than others have on average, by their shares */
};
struct request_ahead request_lines_ahead(const struct request_lines *lines, uint32_t account,
                                         uint64_t work);

/* For serving/gateway/request.c alone. */
void request_lines_add(struct request_lines *lines, struct request *request);
void request_lines_take_out(struct request_lines *lines, struct request *request);

/* One that waited has got a unit: virtual time is its turn, but no more than that of one whom it
 * passed. So who has a request that passes all of his others takes nothing of anybody's share by it.
 * The turn that it has from now on. */
uint64_t request_lines_serve(struct request_lines *lines, const struct request *request);

/* From a begin to an end, each one that waits once, in the order of turns; NULL behind the last.
 * Meanwhile none may come; those that have been named may leave. */
void request_lines_begin(struct request_lines *lines);
struct request *request_lines_next(struct request_lines *lines);
/* No unit has room for the one just named, and there may be room for others. */
void request_lines_pass(struct request_lines *lines, const struct request *request);
void request_lines_end(struct request_lines *lines);

/* check()s that lines, turns and counts agree. Slow. */
void request_lines_audit(const struct request_lines *lines);

#endif
