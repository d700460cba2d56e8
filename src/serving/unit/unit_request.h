/* SPDX-License-Identifier: Apache-2.0
 * The state machine of a request in the unit. Only this file changes a request's state and the
 * unit's counts of states. All other files call the transitions:
 *
 *                  enter            start               answer
 *           FREE ---------> WAITING ------> PREFILL ------------> DECODE
 *                           |  ^  ^            |                    |
 *                      park |  |  '------------+---- wait_again ----'
 *                           v  | wait_again
 *                          PARKED --- go_on ---> PREFILL or DECODE
 *                            ^                      |
 *                            '------ park_again ----' (PREFILL alone)
 *
 *           any but FREE --- leave ---> LEAVING --- end ---> FREE
 *           any but FREE --- end, drop ---> FREE
 *
 * A transition also allocates or releases pages (serving/unit/pages.c).
 */
#pragma once

#include "serving/unit/pages.h"
#include "serving/unit/state.h"

/* Frees all slots. The unit's requests, free_slots and pool must be allocated. */
void unit_request_open_all(struct unit *unit);

/* The request with this id; NULL if the unit has none. */
struct unit_request *unit_request_of(struct unit *unit, struct request_id id);

/* A free slot, for the caller to fill in. The unit must have fewer requests than requests_max. */
struct unit_request *unit_request_free(struct unit *unit);
/* Frees the memory of a slot that was filled in but does not enter. */
void unit_request_clear(struct unit_request *request);

/* FREE -> WAITING. The id and the data of the SUBMIT must be filled in. */
void unit_request_enter(struct unit *unit, struct unit_request *request, int64_t now_ns);

/* WAITING -> PREFILL. Leases the cached pages of the request. */
void unit_request_start(struct unit *unit, struct unit_request *request, int64_t now_ns);

/* WAITING -> PARKED. Allocates all pages for a start with `token_count` tokens, because blocks will
 * be written to them. `hit` is the current result of pages_look_up. Returns false if there are too
 * few pages, and the request keeps waiting. */
bool unit_request_park(struct unit *unit, struct unit_request *request, const struct pages_hit *hit,
                       uint32_t token_count);

/* PARKED -> PREFILL or DECODE, because the blocks have arrived or a step waits for them. */
void unit_request_go_on(struct unit *unit, struct unit_request *request,
                        enum unit_request_state to);

/* PREFILL -> PARKED, because the step does not wait after all. The request keeps its pages. */
void unit_request_park_again(struct unit *unit, struct unit_request *request);

/* PREFILL -> DECODE, because the first token is chosen. Does nothing in DECODE. */
void unit_request_answer(struct unit *unit, struct unit_request *request);

/* PARKED, PREFILL or DECODE -> WAITING. Releases the pages. */
void unit_request_wait_again(struct unit *unit, struct unit_request *request, int64_t now_ns);

/* -> LEAVING. The request has no more rows, and keeps its pages until its transfer ends. */
void unit_request_leave(struct unit *unit, struct unit_request *request);

/* -> FREE. Puts FINISHED; releases pages, memory and slot. */
void unit_request_end(struct unit *unit, struct unit_request *request, enum finish_reason reason);

/* -> FREE without FINISHED, because the request continues at another rank. */
void unit_request_drop(struct unit *unit, struct unit_request *request);

/* Checks the counts of states against the requests. */
void unit_request_audit(const struct unit *unit);
