/* SPDX-License-Identifier: Apache-2.0
 * Which unit gets which of the requests that wait, in the order of their accounts' turns, or without
 * accounts of their arrival (request_lines.h). A request goes to
 * a unit late (serving/policy/balance_units), or to two that share its work. While no unit serves,
 * requests wait, but not for ever.
 */
#ifndef SERVING_GATEWAY_DISPATCH_H
#define SERVING_GATEWAY_DISPATCH_H

#include "serving/gateway/gateway_state.h"

/* What the request, which is ready to wait, is predicted to be for the fleet; zeros where nobody
 * wants to know: without accounts and a limit of waits. */
struct request_work dispatch_work(struct gateway *gateway, struct request *leader);

/* Looks for units for those that wait. False: the outbox has no room for what comes next. */
bool dispatch_run(struct gateway *gateway, int64_t now_ns) MUST_USE;

/* When a request that waits, settled or not, gives up; `any_serves`: there are units, but none that
 * it fits. */
int64_t dispatch_gives_up_ns(const struct gateway *gateway, const struct request *request,
                             bool any_serves);

/* When dispatch_run should be called at the latest, if nothing changes. */
int64_t dispatch_wake_ns(const struct gateway *gateway);

/* Gives a unit another role if the load calls for it. Load reports come often enough to ask. */
void dispatch_change_roles(struct gateway *gateway, int64_t now_ns);

/* Gives a member another role, and tells it. STATUS_FULL: not done. */
enum status dispatch_assign(struct gateway *gateway, uint32_t unit, enum unit_role role) MUST_USE;

/* The SUBMIT for the unit that has the part; room for so many bytes has been made sure of. */
struct record_submit *dispatch_put_submit(struct gateway *gateway, const struct request *request,
                                          enum request_part part, enum submit_task task);
size_t dispatch_submit_bytes(const struct request *request);

/* The ticket for the KV blocks of a request that two units share; the address is not known yet.
 * Nobody but the gateway's units knows a request's id before its first token, and a ticket is of no
 * use without a connection to their network. */
struct kv_route dispatch_route(const struct request *request);

#endif
