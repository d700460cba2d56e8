/* SPDX-License-Identifier: Apache-2.0
 * A request's life in the unit. This file alone changes a request's state, and with it the unit's
 * counts of states; everybody else asks for a transition:
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
 * A transition takes or gives back the pages that come with it (serving/unit/pages.c).
 */
#ifndef SERVING_UNIT_UNIT_REQUEST_H
#define SERVING_UNIT_UNIT_REQUEST_H

#include "serving/unit/pages.h"
#include "serving/unit/state.h"

/* All are free: the unit begins. Its requests, free_slots and pool are taken. */
void unit_request_open_all(struct unit *unit);

/* The request of this id; NULL: the unit holds none. */
struct unit_request *unit_request_of(struct unit *unit, struct request_id id);

/* One that is free, for the caller to fill in; the unit must hold fewer than requests_max. */
struct unit_request *unit_request_free(struct unit *unit);
/* Gives the memory back of one that was filled in and does not enter. */
void unit_request_clear(struct unit_request *request);

/* FREE -> WAITING, with its id and all that its SUBMIT said filled in. */
void unit_request_enter(struct unit *unit, struct unit_request *request, int64_t now_ns);

/* WAITING -> PREFILL: takes the pages that the cache holds of it. */
void unit_request_start(struct unit *unit, struct unit_request *request, int64_t now_ns);

/* WAITING -> PARKED: takes all pages for a start with `token_count` tokens, because something is to
 * write to them; `hit` is what pages_look_up finds now. False: there is no room now, and it waits
 * on. */
bool unit_request_park(struct unit *unit, struct unit_request *request, const struct pages_hit *hit,
                       uint32_t token_count);

/* PARKED -> PREFILL or DECODE: what was to come has come, or a step waits for it. */
void unit_request_go_on(struct unit *unit, struct unit_request *request,
                        enum unit_request_state to);

/* PREFILL -> PARKED: the step does not wait for it after all. Its pages stay. */
void unit_request_park_again(struct unit *unit, struct unit_request *request);

/* PREFILL -> DECODE: its first token is chosen. From DECODE it does nothing. */
void unit_request_answer(struct unit *unit, struct unit_request *request);

/* PARKED, PREFILL or DECODE -> WAITING: gives its pages back. */
void unit_request_wait_again(struct unit *unit, struct unit_request *request, int64_t now_ns);

/* -> LEAVING: it has no more rows, and keeps its pages until its transfer ends. */
void unit_request_leave(struct unit *unit, struct unit_request *request);

/* -> FREE: says FINISHED; pages, memory and slot go back. */
void unit_request_end(struct unit *unit, struct unit_request *request, enum finish_reason reason);

/* -> FREE likewise, without a word: it goes on at another rank. */
void unit_request_drop(struct unit *unit, struct unit_request *request);

/* Checks the counts of states against the requests. */
void unit_request_audit(const struct unit *unit);

#endif
