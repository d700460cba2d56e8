/* SPDX-License-Identifier: Apache-2.0
 * Which unit has which request, and the one queue of those that wait for one, in the order of their
 * arrival. A request goes to a unit late (serving/policy/balance_units) and, when that is lost or
 * fails it, again to another, with the tokens that its client has; its attempt counts up, so what
 * the first unit may still say finds nobody. While no unit serves, requests wait, but not for ever.
 *
 * The queue is also where requests are ended that no unit will say a last word on.
 */
#ifndef SERVING_GATEWAY_DISPATCH_H
#define SERVING_GATEWAY_DISPATCH_H

#include "serving/gateway/request.h"

/* The request, settled or not, waits for a unit; behind all that came before. */
void dispatch_add(struct gateway *gateway, struct request *request, int64_t now_ns);

/* Out of the queue, if it is in. */
void dispatch_remove(struct gateway *gateway, struct request *request);

/* It will be ended with the next step, as if a unit had said so: no unit has it. */
void dispatch_end(struct gateway *gateway, struct request *request, enum finish_reason reason);

/* Its unit has said the last word on it. */
void dispatch_part(struct gateway *gateway, struct request *request);

/* For SUBMITs. */
size_t dispatch_submit_bytes(const struct request *request);
struct record_submit *dispatch_put_submit(struct gateway *gateway, const struct request *request,
                                          uint32_t unit, enum submit_task task);

/* True if its last token ended the answer, which only its unit's last word tells yet. */
bool dispatch_is_whole(const struct request *request, enum finish_reason *reason_out);

/* The first tokens of an attempt have come: its pages are counted as held from now on. */
void dispatch_progress(struct gateway *gateway, struct request *request, uint32_t unit);

/* True if the ending at one of its units calls for another try, and the request waits for it:
 * elsewhere, or after a failed step at the same unit too, a little later. Room for
 * HANDOVER_CANCEL_BYTES has been made sure of. */
bool dispatch_retry(struct gateway *gateway, struct request *request, uint32_t unit,
                    enum finish_reason reason, int64_t now_ns);

/* All that is bound to the unit goes elsewhere. STATUS_FULL: not done. */
enum status dispatch_lose(struct gateway *gateway, uint32_t unit, int64_t now_ns);

/* Gives a member another role, and tells it. STATUS_FULL: not done. */
enum status dispatch_assign(struct gateway *gateway, uint32_t unit, enum unit_role role);

/* Looks for units that have fallen silent, and for units for those that wait. */
void dispatch_run(struct gateway *gateway, int64_t now_ns);

/* When dispatch_run should be called at the latest. */
int64_t dispatch_wake_ns(const struct gateway *gateway);

#endif
