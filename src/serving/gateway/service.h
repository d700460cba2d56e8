/* SPDX-License-Identifier: Apache-2.0
 * The answers that need no model: /models, /health, /metrics.
 */
#ifndef SERVING_GATEWAY_SERVICE_H
#define SERVING_GATEWAY_SERVICE_H

#include "serving/gateway/gateway_state.h"

/* `name`: of one model, or empty for the list. */
enum status service_models(struct gateway *gateway, struct connection_id connection,
                           struct bytes name) MUST_USE;

enum status service_health(struct gateway *gateway, struct connection_id connection) MUST_USE;

enum status service_metrics(struct gateway *gateway, struct connection_id connection,
                            int64_t now_ns) MUST_USE;

#endif
