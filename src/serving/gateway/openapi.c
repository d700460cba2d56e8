/* SPDX-License-Identifier: Apache-2.0
 * /openapi.json: the API as an OpenAPI 3.1 document. It is generated from the table of endpoints
 * (endpoint.h) and the table of fields (serving/gateway/api/api_field.h), so it always agrees with
 * them. openapi_schemas.json has the schemas of answers, by the endpoint's name: NAME_answer and,
 * for streams, NAME_event.
 */
#include "serving/gateway/api/api_field.h"
#include "serving/gateway/gateway_state.h"
#include "serving/gateway/reply.h"

extern const char openapi_schemas_start[], openapi_schemas_end[]; /* openapi_schemas.json */

/* Writes a limit of a field, as an integer if it is one. */
static void write_limit(struct json_writer *writer, const char *name, double limit) {
    if (limit == (double)(int64_t)limit)
        json_writer_print(writer, ",\"%s\":%.0f", name, limit);
    else
        json_writer_print(writer, ",\"%s\":%g", name, limit);
}

static void write_schema(struct json_writer *writer, const struct api_field *field) {
    static const char *const types[] = {
        [API_KIND_FLAG] = "boolean", [API_KIND_NUMBER] = "number", [API_KIND_INTEGER] = "integer",
        [API_KIND_TEXT] = "string",  [API_KIND_ARRAY] = "array",   [API_KIND_OBJECT] = "object",
    };
    struct bytes words = bytes_of(field->words);
    json_writer_print(writer, "\"%s\":{\"description\":\"%.*s\"", field->name, PRINT_BYTES(words));
    if (field->kind != API_KIND_ANY)
        json_writer_print(writer, ",\"type\":[\"%s\",\"null\"]", types[field->kind]);
    if (field->low < field->high && field->high < 0x1p62) {
        write_limit(writer, "minimum", field->low);
        write_limit(writer, "maximum", field->high);
    }
    json_writer_text(writer, "}");
}

/* Writes all fields except refused ones. Ignored fields are included. */
static void openapi_write_fields(struct json_writer *writer, const struct dialect *dialect) {
    const struct api_field *field;
    bool first = true;
    json_writer_print(
        writer,
        "\"requestBody\":{\"required\":true,\"content\":{\"application/json\":{\"schema\":"
        "{\"type\":\"object\",\"required\":[\"%s\"],\"properties\":{",
        dialect->prompt_field);
    for (size_t i = 0; (field = api_field_at(i)); i++) {
        if (!(field->dialects >> dialect->number & 1) || field->use == API_FIELD_REFUSED) continue;
        if (!first) json_writer_text(writer, ",");
        write_schema(writer, field);
        first = false;
    }
    json_writer_text(writer, "}}}}},");
}

static bool streams(const struct endpoint *endpoint) {
    return endpoint->dialect && endpoint->number != ENDPOINT_COUNT_TOKENS;
}

static void write_reference(struct json_writer *writer, const char *name, const char *what) {
    json_writer_print(writer, "{\"$ref\":\"#/components/schemas/%s%s\"}", name, what);
}

static void openapi_write_request(struct json_writer *writer, const struct endpoint *endpoint) {
    if (endpoint->dialect) {
        openapi_write_fields(writer, endpoint->dialect);
        return;
    }
    json_writer_text(writer, "\"requestBody\":{\"required\":true,\"content\":"
                             "{\"application/json\":{\"schema\":");
    write_reference(writer, endpoint_name(endpoint->number), "_request");
    json_writer_text(writer, "}}},");
}

/* OpenAPI 3.1 cannot describe the events of a stream, so their schema is listed with its text. */
static void openapi_write_answers(struct json_writer *writer, const struct endpoint *endpoint,
                                  bool model) {
    static const char *const errors[DIALECT_COUNT] = {[DIALECT_ANTHROPIC] = "messages",
                                                      [DIALECT_OLLAMA_CHAT] = "api",
                                                      [DIALECT_OLLAMA_GENERATE] = "api"};
    const char *name = endpoint_name(endpoint->number);
    const struct dialect *dialect = endpoint_error_dialect(endpoint->number, endpoint->path, false);
    const char *failed = dialect ? errors[dialect->number] : NULL;
    json_writer_text(writer, "\"responses\":{\"200\":{\"description\":\"the answer\",\"content\":"
                             "{\"application/json\":{\"schema\":");
    write_reference(writer, name, model ? "_one_answer" : "_answer");
    json_writer_text(writer, "}");
    if (streams(endpoint)) {
        json_writer_print(writer, ",\"%s\":{\"schema\":{\"type\":\"string\"},\"x-event-schema\":",
                          endpoint->dialect->streams_lines ? "application/x-ndjson"
                                                           : "text/event-stream");
        write_reference(writer, name, "_event");
        json_writer_text(writer, "}");
    }
    json_writer_text(writer,
                     "}},\"default\":{\"description\":\"a refusal, or a failure\",\"content\":"
                     "{\"application/json\":{\"schema\":");
    if (endpoint->number == ENDPOINT_HEALTH || endpoint->number == ENDPOINT_MODELS)
        write_reference(writer, name, endpoint->number == ENDPOINT_HEALTH ? "_answer" : "_error");
    else
        write_reference(writer, failed ? failed : "", failed ? "_error" : "error");
    json_writer_text(writer, "}}}}");
}

/* The API's own paths are listed with /v1, except Ollama's; all exist without it, too. */
static void write_path(struct json_writer *writer, const struct endpoint *endpoint, bool model) {
    bool api = (endpoint->dialect && !endpoint->dialect->streams_lines) ||
               endpoint->number == ENDPOINT_MODELS;
    json_writer_print(writer, "\"%s%.*s%s\":{\"%s\":{\"operationId\":\"%s%s\",", api ? "/v1" : "",
                      PRINT_BYTES(endpoint->path), model ? "/{model}" : "",
                      endpoint->method == HTTP_POST ? "post" : "get",
                      endpoint_name(endpoint->number), model ? "_one" : "");
    if (model)
        json_writer_text(writer, "\"parameters\":[{\"name\":\"model\",\"in\":\"path\",\"required\":"
                                 "true,\"schema\":{\"type\":\"string\"}}],");
    if (endpoint->method == HTTP_POST) openapi_write_request(writer, endpoint);
    openapi_write_answers(writer, endpoint, model);
    json_writer_text(writer, "}}");
}

static void write_document(struct json_writer *writer, const void *context) {
    const struct gateway *gateway = context;
    const struct endpoint *endpoint;
    json_writer_print(writer,
                      "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"Fathom\",\"version\":\"%.*s\"},"
                      "\"paths\":{",
                      PRINT_BYTES(gateway->version));
    bool first = true;
    for (uint32_t i = 0; (endpoint = endpoint_at(i)); i++) {
        if (!(endpoint->listeners & ENDPOINT_PUBLIC)) continue;
        if (!first) json_writer_text(writer, ",");
        first = false;
        write_path(writer, endpoint, false);
        if (endpoint->number != ENDPOINT_MODELS) continue;
        json_writer_text(writer, ",");
        write_path(writer, endpoint, true);
    }
    json_writer_text(writer, "},\"components\":{\"schemas\":");
    json_writer_bytes(writer,
                      (struct bytes){openapi_schemas_start,
                                     (size_t)(openapi_schemas_end - openapi_schemas_start)});
    json_writer_text(writer, "}}");
}

enum status openapi_document(struct gateway *gateway, const struct endpoint_call *call) {
    return reply_call(gateway, call, write_document, gateway);
}
