/* SPDX-License-Identifier: Apache-2.0
 * The gateway's counters of units, against which the ledger is checked: the counts in a unit's load
 * reports, and the work that it has reported to this gateway, request by request. Sent as
 * UNIT_TOTALS every gateway_options.totals_ns, when a unit has joined, when it is lost, and when a
 * draining gateway has no requests left.
 *
 * A unit's books grow with each TOKENS and FINISHED (request_note). Books of a request that the
 * unit still has are open. They are entered once it has it no more.
 */
#pragma once

#include "serving/gateway/gateway_state.h"

/* Makes the next unit_totals_run send. */
void unit_totals_soon(struct gateway *gateway);

/* Sends the counters of each member, if it is time. */
void unit_totals_run(struct gateway *gateway, int64_t now_ns);

/* The time at which to call unit_totals_run; MACHINE_NEVER. */
int64_t unit_totals_wake_ns(const struct gateway *gateway);

/* Sends the counters of a lost unit while its requests are still bound to it. Sends none for a unit
 * that is no member. STATUS_FULL: not put. */
enum status unit_totals_lost(struct gateway *gateway, uint32_t unit) MUST_USE;
