/* SPDX-License-Identifier: Apache-2.0
 * The answers that need no model: /models, /user/balance, /version, /health, /live, /metrics, and
 * Ollama's /api/tags, /api/show and /api/version.
 */
#include "base/check.h"
#include "base/url_path.h"
#include "serving/gateway/dialects/anthropic_words.h"
#include "serving/gateway/dialects/ollama_dialect.h"
#include "serving/gateway/dialects/ollama_words.h"
#include "serving/gateway/dialects/openai_words.h"
#include "serving/gateway/gateway_state.h"
#include "serving/gateway/reply.h"

/* Limit of prompt and answer tokens together; 0: no unit has joined yet. */
static uint64_t tokens_max(const struct gateway *gateway) {
    return fleet_knows_model(&gateway->fleet) ? fleet_tokens_max(&gateway->fleet) : 0;
}

struct models_view {
    const struct gateway *gateway;
    bool anthropic;  /* in Anthropic's format */
    bool shows_one;  /* Ollama's /api/show, which has no list */
    uint64_t denied; /* bit i: model i is denied */
};

static void write_models(struct json_writer *writer, const void *context) {
    const struct models_view *view = context;
    const struct gateway *gateway = view->gateway;
    struct api_model allowed[ARRAY_COUNT(gateway->models.names)];
    uint32_t count = 0;
    for (uint32_t i = 0; i < gateway->models.count; i++)
        if (!(view->denied >> i & 1)) allowed[count++] = gateway->models.names[i];
    if (view->anthropic)
        anthropic_words_models(writer, allowed, count, tokens_max(gateway));
    else
        openai_words_models(writer, allowed, count, gateway->options.model_created,
                            tokens_max(gateway));
}

struct model_view {
    const struct gateway *gateway;
    bool anthropic;
    const struct api_model *model;
};

static void write_model(struct json_writer *writer, const void *context) {
    const struct model_view *view = context;
    if (view->anthropic)
        anthropic_words_model(writer, view->model->name, tokens_max(view->gateway));
    else
        openai_words_model(writer, view->model->name, view->gateway->options.model_created,
                           tokens_max(view->gateway));
}

static bool refuse_model(struct api_error *error, struct bytes name) {
    return api_error_set(error, 404, "model", "model_not_found",
                         "The model '%.*s' does not exist here.",
                         name.count < 100 ? (int)name.count : 100, name.data);
}

enum status service_models(struct gateway *gateway, const struct endpoint_call *call) {
    char text[2 * MODELS_NAME_BYTES_MAX]; /* a name that does not fit is no model's name */
    struct bytes name = {text, url_path_decode(call->rest, text, sizeof text)};
    struct reply reply = {.connection = call->record->connection,
                          .endpoint = call->endpoint,
                          .http_status = 200,
                          .content_type = CONTENT_JSON};
    bool anthropic = call->spoken != NULL;
    struct models_view all = {
        .gateway = gateway,
        .anthropic = anthropic,
        .denied = accounts_models_denied(&gateway->accounts, call->account, call->key)};
    if (name.count == 0) return reply_whole(gateway, &reply, write_models, &all);
    const struct api_model *found = models_find(&gateway->models, name);
    struct api_model asked = {.name = name}; /* with any name, the one that was asked for */
    struct model_view view = {gateway, anthropic, gateway->models.any ? &asked : found};
    struct api_error error;
    if (!found)
        refuse_model(&error, name);
    else if (models_allow(&gateway->models, all.denied, (uint32_t)(found - gateway->models.names),
                          &error))
        return reply_whole(gateway, &reply, write_model, &view);
    return reply_error(gateway, reply.connection, reply.endpoint, NULL, &error);
}

/* ---- Ollama's ---- */

/* The version of Ollama's API that is spoken here. Clients refuse servers that are too old. */
#define OLLAMA_VERSION "0.13.0"

static void write_ollama_version(struct json_writer *writer, const void *context) {
    const struct gateway *gateway = context;
    json_writer_print(writer, "{\"version\":\"" OLLAMA_VERSION "\",\"fathom\":\"%.*s\"}",
                      PRINT_BYTES(gateway->version));
}

enum status service_ollama_version(struct gateway *gateway, const struct endpoint_call *call) {
    return reply_call(gateway, call, write_ollama_version, gateway);
}

static void write_ollama_models(struct json_writer *writer, const void *context) {
    const struct models_view *view = context;
    const struct gateway *gateway = view->gateway;
    const struct chat_template *chat_template = gateway->options.chat_template;
    struct api_model allowed[ARRAY_COUNT(gateway->models.names)];
    struct ollama_models listed = {.models = allowed,
                                   .created = gateway->options.model_created,
                                   .model_id = gateway->fleet.model.model_id,
                                   .tokens_max = tokens_max(gateway),
                                   .thinks = models_thought(chat_template) != CHAT_THOUGHT_NEVER,
                                   .calls = chat_template && chat_template->prints_tools};
    for (uint32_t i = 0; i < gateway->models.count; i++)
        if (!(view->denied >> i & 1)) allowed[listed.count++] = gateway->models.names[i];
    if (view->shows_one)
        ollama_words_show(writer, &listed);
    else
        ollama_words_tags(writer, &listed);
}

enum status service_ollama_tags(struct gateway *gateway, const struct endpoint_call *call) {
    struct models_view all = {
        .gateway = gateway,
        .denied = accounts_models_denied(&gateway->accounts, call->account, call->key)};
    return reply_call(gateway, call, write_ollama_models, &all);
}

/* Finds the model that the body names as 'model' or, as older clients do, as 'name'. */
static bool read_shown(struct gateway *gateway, const struct endpoint_call *call, uint64_t denied,
                       struct api_error *error) {
    const struct record_client_request *record = call->record;
    struct bytes name = {"", 0}, body = {client_request_body(record), record->body_bytes};
    struct api_defaults defaults = {.models = gateway->models.names};
    struct api_reader reader = {.arena = &gateway->scratch,
                                .dialect = &ollama_chat_dialect,
                                .defaults = &defaults,
                                .error = error};
    arena_clear(&gateway->scratch);
    if (!api_request_open(&reader, body)) return false;
    const char *field = api_reader_given(reader.root, "model") ? "model" : "name";
    if (!api_reader_given(reader.root, field)) return api_reader_missing(&reader, "model");
    if (!api_reader_text(&reader, reader.root, field, &name)) return false;
    const struct api_model *model = models_find(&gateway->models, name);
    if (model)
        return models_allow(&gateway->models, denied, (uint32_t)(model - gateway->models.names),
                            error);
    return refuse_model(error, name);
}

enum status service_ollama_show(struct gateway *gateway, const struct endpoint_call *call) {
    struct models_view view = {
        .gateway = gateway,
        .shows_one = true,
        .denied = accounts_models_denied(&gateway->accounts, call->account, call->key)};
    struct api_error error;
    if (read_shown(gateway, call, view.denied, &error))
        return reply_call(gateway, call, write_ollama_models, &view);
    return reply_error(gateway, call->record->connection, call->endpoint, NULL, &error);
}

/* ---- the account, the service ---- */

/* DeepSeek's format. Granted and paid balance are not distinguished. */
struct balance_view {
    const struct accounts *accounts;
    const struct endpoint_call *call;
};

static void write_balance(struct json_writer *writer, const void *context) {
    const struct balance_view *view = context;
    uint32_t account = view->call->account;
    int64_t nanos = accounts_balance(view->accounts, account);
    bool is_available = !accounts_lack(view->accounts, account, view->call->key);
    json_writer_text(writer, is_available ? "{\"is_available\":true,\"balance_infos\":["
                                          : "{\"is_available\":false,\"balance_infos\":[");
    if (account != ACCOUNT_NONE && view->accounts->currency[0]) {
        json_writer_print(writer, "{\"currency\":\"%s\",\"total_balance\":\"",
                          view->accounts->currency);
        accounts_write_amount(writer, nanos, 2);
        json_writer_text(writer, "\",\"granted_balance\":\"0.00\",\"topped_up_balance\":\"");
        accounts_write_amount(writer, nanos, 2);
        json_writer_text(writer, "\"}");
    }
    json_writer_text(writer, "]}");
}

enum status service_balance(struct gateway *gateway, const struct endpoint_call *call) {
    struct balance_view view = {&gateway->accounts, call};
    return reply_call(gateway, call, write_balance, &view);
}

static void service_write_text(struct json_writer *writer, const void *context) {
    json_writer_text(writer, context);
}

/* The health of the gateway, for load balancers. */
struct health_view {
    const char *status;
    enum unit_role missing; /* UNIT_BOTH: none */
};

static void write_health(struct json_writer *writer, const void *context) {
    const struct health_view *view = context;
    json_writer_print(writer, "{\"status\":\"%s\"", view->status);
    if (view->missing != UNIT_BOTH)
        json_writer_print(writer, ",\"missing\":\"%s\"", record_unit_role_name(view->missing));
    json_writer_text(writer, "}");
}

enum status service_health(struct gateway *gateway, const struct endpoint_call *call) {
    bool serves = fleet_serves(&gateway->fleet);
    struct health_view view = {.missing = fleet_missing_role(&gateway->fleet)};
    view.status = gateway->draining           ? "draining"
                  : !serves                   ? "starting"
                  : view.missing != UNIT_BOTH ? "degraded"
                                              : "ok";
    bool is_ready = serves && !gateway->draining && view.missing == UNIT_BOTH;
    struct reply reply = {.connection = call->record->connection,
                          .endpoint = call->endpoint,
                          .http_status = is_ready ? 200 : 503,
                          .content_type = CONTENT_JSON};
    return reply_whole(gateway, &reply, write_health, &view);
}

enum status service_live(struct gateway *gateway, const struct endpoint_call *call) {
    return reply_call(gateway, call, service_write_text, "{\"status\":\"live\"}");
}

static void write_version(struct json_writer *writer, const void *context) {
    const struct gateway *gateway = context;
    json_writer_print(writer, "{\"version\":\"%.*s\"}", PRINT_BYTES(gateway->version));
}

enum status service_version(struct gateway *gateway, const struct endpoint_call *call) {
    return reply_call(gateway, call, write_version, gateway);
}

struct metrics_view {
    const struct metrics *metrics;
    struct metrics_gauges gauges;
};

static void write_metrics(struct json_writer *writer, const void *context) {
    const struct metrics_view *view = context;
    metrics_write(writer, view->metrics, &view->gauges);
}

enum status service_metrics(struct gateway *gateway, const struct endpoint_call *call) {
    struct reply reply = {.connection = call->record->connection,
                          .endpoint = call->endpoint,
                          .http_status = 200,
                          .content_type = CONTENT_METRICS};
    uint32_t page_count;
    struct record_unit_load load = fleet_sum(&gateway->fleet, &page_count);
    struct metrics_view view = {
        .metrics = &gateway->metrics,
        .gauges = {.uptime_ns = call->now_ns - gateway->started_ns,
                   .requests_held = gateway_held_count(gateway),
                   .page_count = page_count,
                   .requests_queued = gateway_queued_count(gateway),
                   .requests_resumed = gateway->resumed_total,
                   .fleet = &gateway->fleet,
                   .accounts = &gateway->accounts,
                   .model = gateway->model_name,
                   .version = gateway->version,
                   .numerics_id = bytes_of(gateway->fleet.numerics[gateway->fleet.main_numerics]),
                   .load = load},
    };
    return reply_whole(gateway, &reply, write_metrics, &view);
}
