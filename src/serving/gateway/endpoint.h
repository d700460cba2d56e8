/* SPDX-License-Identifier: Apache-2.0
 * The table of HTTP endpoints. Each line has a number, a path, the listeners and callers that may
 * use it, its name in /metrics, the function that answers, and its dialect.
 */
#pragma once

#include "base/status.h"
#include "contract/record_client.h"

struct dialect;
struct gateway;

/* Callers that may use an endpoint if accounts are in use. */
enum endpoint_askers { ASKERS_ALL, ASKERS_WITH_KEY, ASKERS_OPERATORS };

#define ENDPOINT_PUBLIC (1u << HTTP_PUBLIC) /* listeners */
#define ENDPOINT_ADMIN (1u << HTTP_ADMIN)

/* X(number, path, method, listeners, askers, name in /metrics, function, dialect). Every path may
 * also end with slashes, and have the prefix /v1 or /beta. MODELS and endpoints of Anthropic's
 * dialect may also have /anthropic or /anthropic/v1. A model's name may follow MODELS. An endpoint
 * without a dialect reports errors in the client's dialect (endpoint_error_dialect). */
#define ENDPOINTS(X)                                                                               \
    X(CHAT, "/chat/completions", HTTP_POST, ENDPOINT_PUBLIC, ASKERS_WITH_KEY, "chat_completions",  \
      intake_ask, &chat_dialect)                                                                   \
    X(COMPLETIONS, "/completions", HTTP_POST, ENDPOINT_PUBLIC, ASKERS_WITH_KEY, "completions",     \
      intake_ask, &completion_dialect)                                                             \
    X(MESSAGES, "/messages", HTTP_POST, ENDPOINT_PUBLIC, ASKERS_WITH_KEY, "messages", intake_ask,  \
      &anthropic_dialect)                                                                          \
    X(COUNT_TOKENS, "/messages/count_tokens", HTTP_POST, ENDPOINT_PUBLIC, ASKERS_WITH_KEY,         \
      "count_tokens", intake_ask, &anthropic_count_dialect)                                        \
    X(RESPONSES, "/responses", HTTP_POST, ENDPOINT_PUBLIC, ASKERS_WITH_KEY, "responses",           \
      intake_ask, &responses_dialect)                                                              \
    X(OLLAMA_CHAT, "/api/chat", HTTP_POST, ENDPOINT_PUBLIC, ASKERS_WITH_KEY, "api_chat",           \
      intake_ask, &ollama_chat_dialect)                                                            \
    X(OLLAMA_GENERATE, "/api/generate", HTTP_POST, ENDPOINT_PUBLIC, ASKERS_WITH_KEY,               \
      "api_generate", intake_ask, &ollama_generate_dialect)                                        \
    X(OLLAMA_SHOW, "/api/show", HTTP_POST, ENDPOINT_PUBLIC, ASKERS_WITH_KEY, "api_show",           \
      service_ollama_show, NULL)                                                                   \
    X(OLLAMA_TAGS, "/api/tags", HTTP_GET, ENDPOINT_PUBLIC, ASKERS_WITH_KEY, "api_tags",            \
      service_ollama_tags, NULL)                                                                   \
    X(OLLAMA_VERSION, "/api/version", HTTP_GET, ENDPOINT_PUBLIC, ASKERS_WITH_KEY, "api_version",   \
      service_ollama_version, NULL)                                                                \
    X(TOKENIZE, "/tokenize", HTTP_POST, ENDPOINT_PUBLIC, ASKERS_WITH_KEY, "tokenize",              \
      prompt_tokens_ask, NULL)                                                                     \
    X(DETOKENIZE, "/detokenize", HTTP_POST, ENDPOINT_PUBLIC, ASKERS_WITH_KEY, "detokenize",        \
      prompt_tokens_text, NULL)                                                                    \
    X(MODELS, "/models", HTTP_GET, ENDPOINT_PUBLIC, ASKERS_WITH_KEY, "models", service_models,     \
      NULL)                                                                                        \
    X(BALANCE, "/user/balance", HTTP_GET, ENDPOINT_PUBLIC, ASKERS_WITH_KEY, "user_balance",        \
      service_balance, NULL)                                                                       \
    X(VERSION, "/version", HTTP_GET, ENDPOINT_PUBLIC, ASKERS_WITH_KEY, "version", service_version, \
      NULL)                                                                                        \
    X(OPENAPI, "/openapi.json", HTTP_GET, ENDPOINT_PUBLIC, ASKERS_WITH_KEY, "openapi",             \
      openapi_document, NULL)                                                                      \
    X(HEALTH, "/health", HTTP_GET, ENDPOINT_PUBLIC | ENDPOINT_ADMIN, ASKERS_ALL, "health",         \
      service_health, NULL)                                                                        \
    X(LIVE, "/live", HTTP_GET, ENDPOINT_PUBLIC | ENDPOINT_ADMIN, ASKERS_ALL, "live", service_live, \
      NULL)                                                                                        \
    X(METRICS, "/metrics", HTTP_GET, ENDPOINT_ADMIN, ASKERS_OPERATORS, "metrics", service_metrics, \
      NULL)                                                                                        \
    X(FLEET, "/debug/fleet", HTTP_GET, ENDPOINT_ADMIN, ASKERS_OPERATORS, "fleet", fleet_report,    \
      NULL)                                                                                        \
    X(FLEET_LOAD, "/debug/fleet/load", HTTP_POST, ENDPOINT_ADMIN, ASKERS_OPERATORS, "fleet_load",  \
      fleet_report_load, NULL)                                                                     \
    X(FLEET_DRAIN, "/debug/fleet/drain", HTTP_POST, ENDPOINT_ADMIN, ASKERS_OPERATORS,              \
      "fleet_drain", fleet_report_drain, NULL)                                                     \
    X(FLEET_ROLE, "/debug/fleet/role", HTTP_POST, ENDPOINT_ADMIN, ASKERS_OPERATORS, "fleet_role",  \
      fleet_report_role, NULL)

enum endpoint_number {
#define ENDPOINT_NUMBER(number, path, method, listeners, askers, name, function, dialect)          \
    ENDPOINT_##number,
    ENDPOINTS(ENDPOINT_NUMBER)
#undef ENDPOINT_NUMBER
        ENDPOINT_OTHER, /* an unknown path */
    ENDPOINT_COUNT
};

struct endpoint {
    enum endpoint_number number;
    struct bytes path;
    enum http_method method;
    uint32_t listeners; /* bit (1 << listener) is set for each listener that serves it */
    enum endpoint_askers askers;
    const struct dialect *dialect; /* NULL: none */
};

/* A request that is being handled. */
struct endpoint_call {
    const struct record_client_request *record;
    enum endpoint_number endpoint;
    struct bytes rest;            /* rest of the path after "/models/" */
    uint32_t account;             /* account of the caller's API key; ACCOUNT_NONE */
    uint32_t key;                 /* the key's slot; ACCOUNT_NONE */
    const struct dialect *spoken; /* the dialect of errors; NULL means OpenAI's */
    int64_t now_ns;
};

/* The functions that answer. Each is in the file after which it is named. STATUS_FULL: the outbox
 * has no room, and nothing has changed. */
#define ENDPOINT_FUNCTION(number, path, method, listeners, askers, name, function, dialect)        \
    enum status function(struct gateway *gateway, const struct endpoint_call *call) MUST_USE;
ENDPOINTS(ENDPOINT_FUNCTION)
#undef ENDPOINT_FUNCTION

/* Finds the endpoint of a path; NULL: there is none. *rest_out: a model's name after MODELS. */
const struct endpoint *endpoint_find(struct bytes path, struct bytes *rest_out);

/* Returns endpoints in the table's order, from 0. NULL after the last. */
const struct endpoint *endpoint_at(uint32_t index);

/* The endpoint's name in /metrics. */
const char *endpoint_name(enum endpoint_number number);

/* NULL: none. */
const struct dialect *endpoint_dialect(enum endpoint_number number);

/* The dialect of errors: the endpoint's or, if it has none, that of the path (Ollama's below /api/)
 * or the client's. NULL means OpenAI's. */
const struct dialect *endpoint_error_dialect(enum endpoint_number number, struct bytes path,
                                             bool speaks_anthropic);

/* Says what to use in place of a path of other servers that this one does not have; NULL: the path
 * is unknown. */
const char *endpoint_cure(struct bytes path);
