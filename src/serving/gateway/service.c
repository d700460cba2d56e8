/* SPDX-License-Identifier: Apache-2.0
 * The answers that need no model: /models, /user/balance, /version, /health, /live, /metrics.
 */
#include "base/check.h"
#include "base/url_path.h"
#include "serving/gateway/dialects/anthropic_words.h"
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

enum status service_models(struct gateway *gateway, const struct endpoint_call *call) {
    char text[2 * MODELS_NAME_BYTES_MAX]; /* a name that does not fit is no model's name */
    struct bytes name = {text, url_path_decode(call->rest, text, sizeof text)};
    struct reply reply = {.connection = call->record->connection,
                          .endpoint = call->endpoint,
                          .http_status = 200,
                          .content_type = CONTENT_JSON};
    bool anthropic = call->spoken != NULL;
    struct models_view all = {gateway, anthropic,
                              accounts_models_denied(&gateway->accounts, call->account, call->key)};
    if (name.count == 0) return reply_whole(gateway, &reply, write_models, &all);
    struct model_view view = {gateway, anthropic, models_find(&gateway->models, name)};
    struct api_error error;
    if (!view.model)
        api_error_set(&error, 404, "model", "model_not_found",
                      "The model '%.*s' does not exist here.",
                      name.count < 100 ? (int)name.count : 100, name.data);
    else if (models_allow(&gateway->models, all.denied,
                          (uint32_t)(view.model - gateway->models.names), &error))
        return reply_whole(gateway, &reply, write_model, &view);
    return reply_error(gateway, reply.connection, reply.endpoint, NULL, &error);
}

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
