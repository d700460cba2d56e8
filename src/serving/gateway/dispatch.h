/* SPDX-License-Identifier: Apache-2.0
 * Chooses a unit for each waiting request, in the order of the accounts' fair-queueing turns or,
 * without accounts, of arrival (request_lines.h). A request is bound as late as possible
 * (serving/policy/balance/balance_units), to one unit, or to a prefill unit and a decode unit.
 * While no unit serves, requests wait for a limited time.
 */
#pragma once

#include "serving/gateway/gateway_state.h"

/* Predicts the work of a request that is ready to wait. Zeros if nothing needs it: there are no
 * accounts and no limit on the time to first token. */
struct request_work dispatch_work(struct gateway *gateway, struct request *leader);

/* Places waiting requests at units. False: the outbox is full. */
bool dispatch_run(struct gateway *gateway, int64_t now_ns) MUST_USE;

/* The time at which a waiting or unchecked request gives up. `any_serves`: units serve, but the
 * request fits none of them. */
int64_t dispatch_gives_up_ns(const struct gateway *gateway, const struct request *request,
                             bool any_serves);

/* The time at which dispatch_run must be called if nothing changes. */
int64_t dispatch_wake_ns(const struct gateway *gateway);

/* Switches a unit between prefill and decode if the load requires it. Call with each load
 * report. */
void dispatch_change_roles(struct gateway *gateway, int64_t now_ns);

/* Gives a member another role and sends it the order. STATUS_FULL: nothing has changed. */
enum status dispatch_assign(struct gateway *gateway, uint32_t unit, enum unit_role role) MUST_USE;

/* Puts the SUBMIT for the unit of the part. The caller makes sure that the outbox has room. */
struct record_submit *dispatch_put_submit(struct gateway *gateway, const struct request *request,
                                          enum request_part part, enum submit_task task);
size_t dispatch_submit_bytes(const struct request *request);

/* The transfer grant for the KV blocks of a request that two units share. The caller sets its
 * address. The grant is derived from the request's id, which only units know before the first
 * token, and it is of no use without a connection to their network. */
struct kv_route dispatch_route(const struct request *request);
