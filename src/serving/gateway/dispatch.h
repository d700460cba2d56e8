/* SPDX-License-Identifier: Apache-2.0
 * Chooses a unit for each waiting request, in the order of the accounts' turns or, without
 * accounts, of arrival (request_lines.h). A request is sent to a unit late
 * (serving/policy/balance/balance_units), or to two units that share its work. While no unit serves,
 * requests wait for a limited time.
 */
#pragma once

#include "serving/gateway/gateway_state.h"

/* The predicted work of a request that is ready to wait. Zeros if it is not needed: without
 * accounts and without a limit of waits. */
struct request_work dispatch_work(struct gateway *gateway, struct request *leader);

/* Looks for units for the waiting requests. False: the outbox is full. */
bool dispatch_run(struct gateway *gateway, int64_t now_ns) MUST_USE;

/* The time at which a waiting request gives up, checked or not. `any_serves`: there are units, but
 * none that it fits. */
int64_t dispatch_gives_up_ns(const struct gateway *gateway, const struct request *request,
                             bool any_serves);

/* The time at which dispatch_run must be called if nothing changes. */
int64_t dispatch_wake_ns(const struct gateway *gateway);

/* Gives a unit another role if the load requires it. Called with each load report. */
void dispatch_change_roles(struct gateway *gateway, int64_t now_ns);

/* Gives a member another role and notifies it. STATUS_FULL: nothing has changed. */
enum status dispatch_assign(struct gateway *gateway, uint32_t unit, enum unit_role role) MUST_USE;

/* Puts the SUBMIT for the unit of that part. The caller has made sure of the room. */
struct record_submit *dispatch_put_submit(struct gateway *gateway, const struct request *request,
                                          enum request_part part, enum submit_task task);
size_t dispatch_submit_bytes(const struct request *request);

/* The transfer grant for the KV blocks of a request that two units share; its address is not known
 * yet. Only the gateway's units know a request's id before its first token. A grant is of no use
 * without a connection to their network. */
struct kv_route dispatch_route(const struct request *request);
