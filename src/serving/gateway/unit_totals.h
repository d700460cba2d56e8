/* SPDX-License-Identifier: Apache-2.0
 * Counters of units' work, which check the ledger: the totals in a unit's load reports, and the
 * work that it has reported to this gateway request by request. They are sent as UNIT_TOTALS every
 * gateway_options.totals_ns, when a unit has joined, when it is lost, and when a draining gateway
 * has no requests left.
 *
 * A unit's books grow with each TOKENS and FINISHED (request_note). The books of a request are open
 * while the unit has it, and entered once it has not.
 */
#pragma once

#include "serving/gateway/gateway_state.h"

/* Makes the next unit_totals_run send the counters. */
void unit_totals_soon(struct gateway *gateway);

/* Sends the counters of each member if they are due and the outbox has room. */
void unit_totals_run(struct gateway *gateway, int64_t now_ns);

/* The time at which unit_totals_run must be called; MACHINE_NEVER: not by time. */
int64_t unit_totals_wake_ns(const struct gateway *gateway);

/* Sends the counters of a lost unit, while its requests are still bound to it. Sends nothing for a
 * unit that is not a member. STATUS_FULL: nothing was put. */
enum status unit_totals_lost(struct gateway *gateway, uint32_t unit) MUST_USE;
