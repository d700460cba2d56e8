/* SPDX-License-Identifier: Apache-2.0
 * Failover: requests continue at another unit if theirs is lost, falls silent, refuses them or
 * fails. They continue from the tokens that their clients have. The attempt in their id increases,
 * so later records of the first unit are ignored. Requests that cannot continue are ended.
 */
#pragma once

#include "serving/gateway/gateway_state.h"

/* Call when a unit has ended the request with `reason`. True if the request is handled here: it
 * waits for a retry at another unit or, after a failed step, later at the same one. Needs
 * REQUEST_CANCEL_BYTES of room in the outbox. */
bool resume_after(struct gateway *gateway, struct request *request, uint32_t unit,
                  enum finish_reason reason, int64_t now_ns);

/* Call when a unit is lost. All its requests continue elsewhere or end. STATUS_FULL: nothing has
 * changed. */
enum status resume_lost(struct gateway *gateway, uint32_t unit, int64_t now_ns) MUST_USE;

/* Gives up units that have fallen silent. */
void resume_watch(struct gateway *gateway, int64_t now_ns);

/* The time at which resume_watch must be called. */
int64_t resume_wake_ns(const struct gateway *gateway);
