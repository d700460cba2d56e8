/* SPDX-License-Identifier: Apache-2.0
 * The state of a request in the unit. Only this file changes a request's state, and with it the
 * unit's counts of states. All other files call its transitions:
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
 * A transition also claims or releases pages (serving/unit/pages.c).
 */
#ifndef SERVING_UNIT_UNIT_REQUEST_H
#define SERVING_UNIT_UNIT_REQUEST_H

#include "serving/unit/pages.h"
#include "serving/unit/state.h"

/* All are free. The unit's requests, free_slots and pool are allocated. */
void unit_request_open_all(struct unit *unit);

/* The request with this id; NULL: the unit holds none. */
struct unit_request *unit_request_of(struct unit *unit, struct request_id id);

/* A free slot, for the caller to fill in; the unit must hold fewer than requests_max. */
struct unit_request *unit_request_free(struct unit *unit);
/* Frees the memory of a slot that was filled in and does not enter. */
void unit_request_clear(struct unit_request *request);

/* FREE -> WAITING, with its id and all of its SUBMIT filled in. */
void unit_request_enter(struct unit *unit, struct unit_request *request, int64_t now_ns);

/* WAITING -> PREFILL: leases the pages that the cache has for it. */
void unit_request_start(struct unit *unit, struct unit_request *request, int64_t now_ns);

/* WAITING -> PARKED: claims all pages for a start with `token_count` tokens, because they will be
 * written to; `hit` is the present result of pages_look_up. False: there is no room now, and it
 * keeps waiting. */
bool unit_request_park(struct unit *unit, struct unit_request *request, const struct pages_hit *hit,
                       uint32_t token_count);

/* PARKED -> PREFILL or DECODE: its blocks have arrived, or a step waits for them. */
void unit_request_go_on(struct unit *unit, struct unit_request *request,
                        enum unit_request_state to);

/* PREFILL -> PARKED: the step does not wait for it after all. Its pages stay. */
void unit_request_park_again(struct unit *unit, struct unit_request *request);

/* PREFILL -> DECODE: its first token is chosen. From DECODE it does nothing. */
void unit_request_answer(struct unit *unit, struct unit_request *request);

/* PARKED, PREFILL or DECODE -> WAITING: releases its pages. */
void unit_request_wait_again(struct unit *unit, struct unit_request *request, int64_t now_ns);

/* -> LEAVING: it has no more rows, and keeps its pages until its transfer ends. */
void unit_request_leave(struct unit *unit, struct unit_request *request);

/* -> FREE: puts FINISHED; releases pages, memory and slot. */
void unit_request_end(struct unit *unit, struct unit_request *request, enum finish_reason reason);

/* -> FREE likewise, without FINISHED: it continues at another rank. */
void unit_request_drop(struct unit *unit, struct unit_request *request);

/* Checks the counts of states against the requests. */
void unit_request_audit(const struct unit *unit);

#endif
