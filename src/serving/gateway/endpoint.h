/* SPDX-License-Identifier: Apache-2.0
 * What clients and operators may ask for. One line here and a function that answers make an
 * endpoint: the path, who may ask for it where, its name in /metrics and its number follow.
 */
#ifndef SERVING_GATEWAY_ENDPOINT_H
#define SERVING_GATEWAY_ENDPOINT_H

#include "base/status.h"
#include "contract/record_client.h"

struct gateway;

/* Who may ask where accounts are asked for. */
enum endpoint_askers { ASKERS_ALL, ASKERS_WITH_KEY, ASKERS_OPERATORS };

#define ENDPOINT_PUBLIC (1u << HTTP_PUBLIC) /* listeners */
#define ENDPOINT_ADMIN (1u << HTTP_ADMIN)

/* X(number, path, method, listeners, askers, name in /metrics, function). A path may also begin
 * with /v1. Behind that of MODELS a model's name may follow. */
#define ENDPOINTS(X)                                                                               \
    X(CHAT, "/chat/completions", HTTP_POST, ENDPOINT_PUBLIC, ASKERS_WITH_KEY, "chat_completions",  \
      intake_chat)                                                                                 \
    X(COMPLETIONS, "/completions", HTTP_POST, ENDPOINT_PUBLIC, ASKERS_WITH_KEY, "completions",     \
      intake_completion)                                                                           \
    X(MODELS, "/models", HTTP_GET, ENDPOINT_PUBLIC, ASKERS_WITH_KEY, "models", service_models)     \
    X(HEALTH, "/health", HTTP_GET, ENDPOINT_PUBLIC | ENDPOINT_ADMIN, ASKERS_ALL, "health",         \
      service_health)                                                                              \
    X(METRICS, "/metrics", HTTP_GET, ENDPOINT_ADMIN, ASKERS_OPERATORS, "metrics", service_metrics) \
    X(FLEET, "/debug/fleet", HTTP_GET, ENDPOINT_ADMIN, ASKERS_OPERATORS, "fleet", fleet_report)    \
    X(FLEET_DRAIN, "/debug/fleet/drain", HTTP_POST, ENDPOINT_ADMIN, ASKERS_OPERATORS,              \
      "fleet_drain", fleet_report_drain)                                                           \
    X(FLEET_ROLE, "/debug/fleet/role", HTTP_POST, ENDPOINT_ADMIN, ASKERS_OPERATORS, "fleet_role",  \
      fleet_report_role)

enum endpoint_number {
#define ENDPOINT_NUMBER(number, path, method, listeners, askers, name, function) ENDPOINT_##number,
    ENDPOINTS(ENDPOINT_NUMBER)
#undef ENDPOINT_NUMBER
        ENDPOINT_OTHER, /* a path that there is not */
    ENDPOINT_COUNT
};

struct endpoint {
    enum endpoint_number number;
    struct bytes path;
    enum http_method method;
    uint32_t listeners; /* 1 << each that has it */
    enum endpoint_askers askers;
};

/* What is asked for. */
struct endpoint_call {
    const struct record_client_request *record;
    enum endpoint_number endpoint;
    struct bytes rest; /* of the path, behind "/models/" */
    uint32_t account;  /* whose key it has; ACCOUNT_NONE */
    int64_t now_ns;
};

/* The functions that answer, each in the file that its name begins with. STATUS_FULL: the outbox
 * has no room, and nothing was done. */
#define ENDPOINT_FUNCTION(number, path, method, listeners, askers, name, function)                 \
    enum status function(struct gateway *gateway, const struct endpoint_call *call) MUST_USE;
ENDPOINTS(ENDPOINT_FUNCTION)
#undef ENDPOINT_FUNCTION

/* NULL: no such path. */
const struct endpoint *endpoint_find(struct bytes path, struct bytes *rest_out);

/* In /metrics. */
const char *endpoint_name(enum endpoint_number number);

#endif
