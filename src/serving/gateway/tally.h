/* SPDX-License-Identifier: Apache-2.0
 * The books that gateways keep on units, against which the ledger is checked: what a unit says that
 * it has counted (its load reports), and what it has said to this gateway that it did, request by
 * request. Told as UNIT_TALLY every gateway_options.tally_ns, when a unit has come, when it is lost,
 * and when a gateway that drains has nothing left.
 *
 * A unit's books grow with each TOKENS and FINISHED (request_note). Those of a request that the unit
 * still has are open; once it has it no more, they are entered.
 */
#ifndef SERVING_GATEWAY_TALLY_H
#define SERVING_GATEWAY_TALLY_H

#include "serving/gateway/gateway_state.h"

/* With the next tally_run. */
void tally_soon(struct gateway *gateway);

/* Of each member, if it is time to. */
void tally_run(struct gateway *gateway, int64_t now_ns);

/* When tally_run should be called; MACHINE_NEVER. */
int64_t tally_wake_ns(const struct gateway *gateway);

/* Of a unit that is lost, and whose requests are still bound to it; none of one that is no member.
 * STATUS_FULL: not put. */
enum status tally_lost(struct gateway *gateway, uint32_t unit) MUST_USE;

#endif
