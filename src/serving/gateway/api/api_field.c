/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/api_field.h"

#include "base/check.h"
#include "serving/gateway/api/api_values.h"
#include "serving/gateway/api/dialect.h"

/* ---- the table ---- */

#define CHAT (1u << DIALECT_CHAT)
#define PLAIN (1u << DIALECT_COMPLETION)
#define BOTH (CHAT | PLAIN)
#define ANTHROPIC (1u << DIALECT_ANTHROPIC)
#define RESPONSES (1u << DIALECT_RESPONSES)
#define WIRES (ANTHROPIC | RESPONSES)

/* Rows: each begins with the field's name and the dialects that have it. */
#define GOES_TO(member) .offset = offsetof(struct api_request, member)
#define FLAG(member) .kind = API_KIND_FLAG, GOES_TO(member)
#define TEXT(member) .kind = API_KIND_TEXT, GOES_TO(member)
#define NUMBER(least, most, member)                                                                \
    .kind = API_KIND_NUMBER, .low = (least), .high = (most), GOES_TO(member)
#define INTEGER(least, most, member)                                                               \
    .kind = API_KIND_INTEGER, .low = (least), .high = (most), GOES_TO(member)
#define BY(function, shape) .kind = API_KIND_##shape, .read = function
#define OWN(shape) .use = API_FIELD_OWN, .kind = API_KIND_##shape
#define OWN_INTEGER(least, most) OWN(INTEGER), .low = (least), .high = (most)
#define NEUTRAL .use = API_FIELD_NEUTRAL
#define REFUSED .use = API_FIELD_REFUSED

static const struct api_field fields[] = {
    {"model", BOTH, BY(api_values_model, TEXT), .words = "the served name, or 'default'"},
    /* what is asked */
    {"messages", CHAT, OWN(ARRAY), .words = "the conversation, at least one message"},
    {"prompt", PLAIN, OWN(ANY), .words = "a text, or an array of token ids"},
    {"suffix", PLAIN, REFUSED, .words = "completion of a middle is not supported yet."},
    {"echo", PLAIN, FLAG(echo), .words = "the answer begins with the prompt"},
    {"cache_salt", BOTH, TEXT(cache_salt),
     .words = "cached prompts are found only by requests of the same account and salt"},
    {"tools", CHAT, REFUSED, .words = "tools are not supported yet."},
    {"functions", CHAT, REFUSED, .words = "functions are not supported; use 'tools'."},
    /* how long the answer is */
    {"max_tokens", BOTH, OWN_INTEGER(0, INT32_MAX), .words = "tokens of each answer"},
    {"max_completion_tokens", BOTH, OWN_INTEGER(0, INT32_MAX),
     .words = "tokens of each answer; wins over 'max_tokens'"},
    {"min_tokens", BOTH, INTEGER(0, INT32_MAX, sampling.min_tokens),
     .words = "none of the first so many tokens is a stop token"},
    {"stop", BOTH, BY(api_values_stops, ANY),
     .words = "a string, or up to 16: the answer ends before the first of them"},
    {"stop_token_ids", BOTH, BY(api_values_stop_tokens, ARRAY),
     .words = "the answer ends with the first of these tokens"},
    {"ignore_eos", BOTH, FLAG(ignore_eos), .words = "go on after the end-of-sentence token"},
    /* how a token is chosen */
    {"temperature", BOTH, NUMBER(0, 2, sampling.temperature), .words = "0: the likeliest token"},
    {"top_p", BOTH, NUMBER(0, 1, sampling.top_p),
     .words = "only the likeliest tokens that share so much"},
    {"top_k", BOTH, INTEGER(0, INT32_MAX, sampling.top_k),
     .words = "only so many likeliest tokens; 0: all"},
    {"min_p", BOTH, NUMBER(0, 1, sampling.min_p),
     .words = "only tokens at least so likely as this share of the likeliest one's probability"},
    {"frequency_penalty", BOTH, NUMBER(-2, 2, sampling.frequency_penalty),
     .words = "subtracted from a token's logit for each time it stands in the answer"},
    {"presence_penalty", BOTH, NUMBER(-2, 2, sampling.presence_penalty),
     .words = "subtracted once if it stands in the answer"},
    {"repetition_penalty", BOTH, NUMBER(0.01, 10, sampling.repetition_penalty),
     .words = "logits of tokens in prompt or answer are divided by it, negative ones multiplied"},
    {"logit_bias", BOTH, BY(api_values_biases, OBJECT),
     .words = "token id (as text) to a number from -100 to 100, added to its logit"},
    {"seed", BOTH, BY(api_values_seed, INTEGER), .low = INT64_MIN, .high = INT64_MAX,
     .words = "the same seed gives the same answers"},
    {"response_format", BOTH, BY(api_values_response_format, OBJECT),
     .words = "{\"type\":\"text\"} alone"},
    /* what is told */
    {"n", BOTH, INTEGER(1, LIMIT_CHOICES, choice_count), .words = "answers"},
    {"best_of", BOTH, OWN_INTEGER(1, INT32_MAX), .words = "as many as 'n'"},
    {"logprobs", CHAT, OWN(FLAG), .words = "tell each token's log probability"},
    {"logprobs", PLAIN, OWN_INTEGER(0, LIMIT_TOP_LOGPROBS),
     .words = "tell each token's log probability, and those of so many likeliest tokens"},
    {"top_logprobs", CHAT, OWN_INTEGER(0, LIMIT_TOP_LOGPROBS),
     .words = "and those of so many likeliest tokens; needs 'logprobs'"},
    {"return_token_ids", BOTH, FLAG(return_token_ids), .words = "'token_ids' in each choice"},
    {"return_receipt", BOTH, FLAG(return_receipt), .words = "what the answer took"},
    {"stream", BOTH, FLAG(stream), .words = "server-sent events"},
    {"stream_options", BOTH, BY(api_values_stream_options, OBJECT),
     .words = "{\"include_usage\": true}: a last chunk with 'usage'"},
    /* what changes nothing */
    {"user", BOTH, NEUTRAL, .words = "the client's own name for its user"},
    {"store", CHAT, REFUSED, .words = "answers are not stored here."},
    {"metadata", BOTH, NEUTRAL, .words = "the client's own notes"},
    /* what two other dialects share, with each other and with those above */
    {"model", WIRES, BY(api_values_model, TEXT), .words = "the served name, or 'default'"},
    {"top_p", WIRES, NUMBER(0, 1, sampling.top_p),
     .words = "only the likeliest tokens that share so much"},
    {"top_k", WIRES, INTEGER(0, INT32_MAX, sampling.top_k),
     .words = "only so many likeliest tokens; 0: all"},
    {"seed", WIRES, BY(api_values_seed, INTEGER), .low = INT64_MIN, .high = INT64_MAX,
     .words = "the same seed gives the same answers"},
    {"cache_salt", WIRES, TEXT(cache_salt),
     .words = "cached prompts are found only by requests of the same account and salt"},
    {"return_receipt", WIRES, FLAG(return_receipt), .words = "what the answer took"},
    {"stream", WIRES, FLAG(stream), .words = "server-sent events"},
    {"tools", WIRES, OWN(ARRAY), .words = "functions that the model may call"},
    {"tool_choice", WIRES, OWN(ANY), .words = "whether it may"},
    {"service_tier", WIRES, NEUTRAL, .words = "there is one tier"},
    {"context_management", WIRES, OWN(OBJECT), .words = "edits that keep everything, or none"},
    /* Anthropic's */
    {"max_tokens", ANTHROPIC, INTEGER(1, INT32_MAX, new_tokens_max),
     .words = "tokens of the answer; needed"},
    {"messages", ANTHROPIC, OWN(ARRAY), .words = "the conversation, at least one message"},
    {"system", ANTHROPIC, OWN(ANY), .words = "what the model is told first"},
    {"stop_sequences", ANTHROPIC, OWN(ARRAY),
     .words = "up to 16 strings: the answer ends before the first of them"},
    {"temperature", ANTHROPIC, NUMBER(0, 1, sampling.temperature),
     .words = "0: the likeliest token"},
    {"thinking", ANTHROPIC, OWN(OBJECT), .words = "whether the model thinks first"},
    {"output_config", ANTHROPIC, OWN(OBJECT), .words = "'effort', for templates that know it"},
    {"metadata", ANTHROPIC, OWN(OBJECT),
     .words = "'user_id': cached prompts are found only by requests of the same user"},
    {"container", ANTHROPIC, REFUSED, .words = "there are no containers here."},
    {"mcp_servers", ANTHROPIC, REFUSED,
     .words = "this server calls no others; call them yourself."},
    {"output_format", ANTHROPIC, REFUSED,
     .words = "needs constrained output, which this server "
              "does not have yet."},
    {"cache_control", ANTHROPIC, NEUTRAL, .words = "all prompts are cached"},
    {"betas", ANTHROPIC, NEUTRAL, .words = "what is asked for counts"},
    {"diagnostics", ANTHROPIC, NEUTRAL, .words = "of the client's own prompts"},
    {"inference_geo", ANTHROPIC, NEUTRAL, .words = "there is one place"},
    {"speed", ANTHROPIC, NEUTRAL, .words = "there is one speed"},
    {"user_profile_id", ANTHROPIC, NEUTRAL, .words = "the client's own name for its user"},
    {"workspace_id", ANTHROPIC, NEUTRAL, .words = "there are no workspaces"},
};

const struct api_field *api_field_at(size_t index) {
    return index < ARRAY_COUNT(fields) ? &fields[index] : NULL;
}

const struct api_field *api_field_find(const struct dialect *dialect, struct bytes name) {
    for (size_t i = 0; i < ARRAY_COUNT(fields); i++)
        if (fields[i].dialects >> dialect->number & 1 &&
            bytes_equal(name, bytes_of(fields[i].name)))
            return &fields[i];
    return NULL;
}

/* ---- reading ---- */

static bool read_tree(struct api_reader *reader, const struct api_field *field,
                      const struct tree *value, const struct tree **out) {
    bool array = field->kind == API_KIND_ARRAY;
    if (tree_kind(value) != (array ? TREE_ARRAY : TREE_OBJECT))
        return api_reader_wrong_type(reader, field->name, array ? "an array" : "an object", value);
    *out = value;
    return true;
}

static bool read_field(struct api_reader *reader, const struct api_field *field,
                       const struct tree *value, struct api_request *out) {
    void *member = (char *)out + field->offset;
    if (field->read) return field->read(reader, value, out);
    switch (field->kind) {
    case API_KIND_FLAG:
        return api_reader_flag(reader, reader->root, field->name, member);
    case API_KIND_NUMBER:
        return api_reader_number(reader, reader->root, field->name, field->low, field->high,
                                 member);
    case API_KIND_INTEGER:
        return api_reader_integer(reader, reader->root, field->name, (int64_t)field->low,
                                  (int64_t)field->high, member);
    case API_KIND_TEXT:
        return api_reader_text(reader, reader->root, field->name, member);
    case API_KIND_ARRAY:
    case API_KIND_OBJECT:
        return read_tree(reader, field, value, member);
    case API_KIND_ANY:
        break;
    }
    check(!"a field that is read has a kind or a reader");
    return false;
}

static bool read_all(struct api_reader *reader, struct api_request *out) {
    for (const struct api_field *field = fields; field < fields + ARRAY_COUNT(fields); field++) {
        if (!(field->dialects >> reader->dialect->number & 1)) continue;
        const struct tree *value = api_reader_given(reader->root, field->name);
        if (!value) continue;
        if (field->use == API_FIELD_READ && !read_field(reader, field, value, out)) return false;
        if (field->use == API_FIELD_REFUSED && !api_reader_is_neutral(value, field->fine))
            return api_reader_unsupported(reader, field->name, field->words);
    }
    return true;
}

/* ---- names without a row ---- */

/* As many bytes of a name as a header may show; the rest is cut, and what is not plain is a '?'. */
#define NAME_BYTES_MAX 40

static void write_name(struct json_writer *writer, struct bytes name) {
    for (size_t i = 0; i < name.count && i < NAME_BYTES_MAX; i++) {
        bool plain = name.data[i] > ' ' && name.data[i] < 0x7F && name.data[i] != ',';
        json_writer_bytes(writer, (struct bytes){plain ? &name.data[i] : "?", 1});
    }
    if (name.count == 0) json_writer_text(writer, "''");
    if (name.count > NAME_BYTES_MAX) json_writer_text(writer, "...");
}

static bool warn(struct api_reader *reader, struct api_request *out) {
    struct json_writer writer = {.room = API_WARNING_BYTES_MAX};
    struct tree_cursor cursor = {0};
    struct bytes name;
    const struct tree *value;
    while (tree_next_member(reader->root, &cursor, &name, &value)) {
        if (api_field_find(reader->dialect, name)) continue;
        if (!writer.out) writer.out = arena_take(reader->arena, API_WARNING_BYTES_MAX);
        if (!writer.out) return api_reader_no_memory(reader);
        if (writer.count + NAME_BYTES_MAX + 16 > writer.room) { /* and more, which we do not name */
            json_writer_text(&writer, ", ...");
            break;
        }
        json_writer_text(&writer, writer.count ? ", " : "unknown fields: ");
        write_name(&writer, name);
    }
    check(json_writer_fits(&writer));
    out->warning = (struct bytes){writer.out, writer.count};
    return true;
}

bool api_field_read_all(struct api_reader *reader, struct api_request *out) {
    return read_all(reader, out) && warn(reader, out);
}
