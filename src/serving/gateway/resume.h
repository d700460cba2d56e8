/* SPDX-License-Identifier: Apache-2.0
 * Requests that continue at another unit because theirs is lost, silent, refuses or fails. They
 * continue from the tokens that their clients have. Their attempt increases, so later records of
 * the first unit are ignored. Requests that cannot continue are ended.
 */
#pragma once

#include "serving/gateway/gateway_state.h"

/* One of its units has ended the request with `reason`. True if it is to be retried, and the
 * request waits for that: at another unit or, after a failed step, later at the same one. Takes
 * room for REQUEST_CANCEL_BYTES. */
bool resume_after(struct gateway *gateway, struct request *request, uint32_t unit,
                  enum finish_reason reason, int64_t now_ns);

/* The unit is gone: all its requests continue elsewhere, or end. STATUS_FULL: nothing has
 * changed. */
enum status resume_lost(struct gateway *gateway, uint32_t unit, int64_t now_ns) MUST_USE;

/* Gives up units that have fallen silent. */
void resume_watch(struct gateway *gateway, int64_t now_ns);

/* The time at which resume_watch must be called. */
int64_t resume_wake_ns(const struct gateway *gateway);
