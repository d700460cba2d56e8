/* SPDX-License-Identifier: Apache-2.0
 * Requests whose unit is lost, falls silent, refuses or fails: they go on at another unit with the
 * tokens that their clients have, and their attempt counts up, so what the first unit may still say
 * finds nobody. Those that cannot go on are ended.
 */
#ifndef SERVING_GATEWAY_RESUME_H
#define SERVING_GATEWAY_RESUME_H

#include "serving/gateway/gateway_state.h"

/* One of its units has ended the request with `reason`. True if that calls for another try, and the
 * request waits for it: elsewhere, or after a failed step at the same unit too, a little later.
 * Takes room for REQUEST_CANCEL_BYTES. */
bool resume_after(struct gateway *gateway, struct request *request, uint32_t unit,
                  enum finish_reason reason, int64_t now_ns);

/* The unit is gone: all that it has goes on elsewhere, or ends. STATUS_FULL: not done. */
enum status resume_lost(struct gateway *gateway, uint32_t unit, int64_t now_ns) MUST_USE;

/* Gives up units that have fallen silent. */
void resume_watch(struct gateway *gateway, int64_t now_ns);

/* When resume_watch should be called at the latest. */
int64_t resume_wake_ns(const struct gateway *gateway);

#endif
