/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/api_request.h"

#include "base/check.h"
#include "base/format.h"
#include "base/number.h"
#include "base/tree.h"
#include "base/tree_extent.h"

struct request_reader {
    struct arena *arena;
    const struct tree *root;
    struct api_error *error;
};

/* ---- single fields: an absent one and null are the same ---- */

static bool wrong_type(struct request_reader *reader, const char *param, const char *expected,
                       const struct tree *found) {
    return api_error_set(reader->error, 400, param, "invalid_type", "'%s' must be %s, found %s.",
                         param, expected, tree_kind_name(tree_kind(found)));
}

static bool out_of_memory(struct request_reader *reader) {
    return api_error_set(reader->error, 413, NULL, "request_too_large",
                         "The request has too many parts to be read. Send a smaller one.");
}

static const struct tree *given(const struct tree *object, const char *name) {
    const struct tree *value = tree_member(object, name);
    return value && !tree_is_null(value) ? value : NULL;
}

static bool read_flag(struct request_reader *reader, const struct tree *object, const char *name,
                      bool *out) {
    const struct tree *value = given(object, name);
    if (!value || tree_get_bool(value, out)) return true;
    return wrong_type(reader, name, "a boolean", value);
}

static bool read_number(struct request_reader *reader, const char *name, double low, double high,
                        float *out) {
    const struct tree *value = given(reader->root, name);
    double number;
    if (!value) return true;
    if (!tree_get_number(value, &number)) return wrong_type(reader, name, "a number", value);
    if (!(number >= low && number <= high))
        return api_error_set(reader->error, 422, name, "out_of_range",
                             "'%s' is %g, must be between %g and %g.", name, number, low, high);
    *out = (float)number;
    return true;
}

static bool read_within(struct request_reader *reader, const char *name, int64_t low, int64_t high,
                        uint32_t *out) {
    const struct tree *value = given(reader->root, name);
    int64_t number;
    if (!value) return true;
    if (!tree_get_integer(value, &number)) return wrong_type(reader, name, "an integer", value);
    if (number < low || number > high)
        return api_error_set(reader->error, 422, name, "out_of_range",
                             "'%s' is %lld, must be between %lld and %lld.", name,
                             (long long)number, (long long)low, (long long)high);
    *out = (uint32_t)number;
    return true;
}

static bool read_count(struct request_reader *reader, const char *name, int64_t low,
                       uint32_t *out) {
    return read_within(reader, name, low, INT32_MAX, out);
}

static bool read_seed(struct request_reader *reader, struct api_request *out) {
    const struct tree *value = given(reader->root, "seed");
    int64_t seed;
    if (!value) return true;
    if (!tree_get_integer(value, &seed)) return wrong_type(reader, "seed", "an integer", value);
    out->sampling.seed = (uint64_t)seed;
    out->has_seed = true;
    return true;
}

/* No token at all is an answer only where the prompt itself is asked about. */
static bool read_length(struct request_reader *reader, struct api_request *out) {
    uint32_t absent = UINT32_MAX, length = absent, long_name = absent;
    uint32_t least = out->sampling.flags & SAMPLING_SCORES ? 0 : 1;
    if (!read_count(reader, "max_tokens", least, &length) ||
        !read_count(reader, "max_completion_tokens", least, &long_name))
        return false;
    if (long_name != absent) length = long_name; /* the newer name counts */
    if (length == absent) return true;
    out->new_tokens_max = length;
    out->prompt_only = length == 0;
    if (out->sampling.min_tokens <= length) return true;
    return api_error_set(reader->error, 422, "min_tokens", "out_of_range",
                         "'min_tokens' is %u, more than the %u tokens of the answer.",
                         out->sampling.min_tokens, length);
}

static bool read_sampling(struct request_reader *reader, struct api_request *out) {
    struct sampling *sampling = &out->sampling;
    return read_number(reader, "temperature", 0, 2, &sampling->temperature) &&
           read_number(reader, "top_p", 0, 1, &sampling->top_p) &&
           read_number(reader, "min_p", 0, 1, &sampling->min_p) &&
           read_number(reader, "frequency_penalty", -2, 2, &sampling->frequency_penalty) &&
           read_number(reader, "presence_penalty", -2, 2, &sampling->presence_penalty) &&
           read_number(reader, "repetition_penalty", 0.01, 10, &sampling->repetition_penalty) &&
           read_count(reader, "top_k", 0, &sampling->top_k) && read_seed(reader, out) &&
           read_count(reader, "min_tokens", 0, &sampling->min_tokens) && read_length(reader, out);
}

/* ---- lists of tokens ---- */

/* "123", as JSON writes a number: no sign, no leading zero. */
static bool id_from_text(struct bytes text, uint32_t *out) {
    uint64_t number = 0;
    if (text.count == 0 || text.count > 7 || (text.count > 1 && text.data[0] == '0')) return false;
    for (size_t i = 0; i < text.count; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        number = 10 * number + (uint64_t)(text.data[i] - '0');
    }
    *out = (uint32_t)number;
    return number < LIMIT_VOCAB;
}

static bool read_bias(struct request_reader *reader, struct bytes name, const struct tree *value,
                      struct token_bias *out) {
    double bias;
    if (!id_from_text(name, &out->token))
        return api_error_set(reader->error, 422, "logit_bias", "out_of_range",
                             "'logit_bias' has the name '%.*s', which is no token id.",
                             name.count < 50 ? (int)name.count : 50, name.data);
    if (!tree_get_number(value, &bias))
        return wrong_type(reader, "logit_bias", "an object of numbers", value);
    out->bias = (float)bias;
    if (bias >= -100 && bias <= 100) return true;
    return api_error_set(reader->error, 422, "logit_bias", "out_of_range",
                         "'logit_bias' of token %u is %g, must be between -100 and 100.",
                         out->token, bias);
}

static bool read_biases(struct request_reader *reader, struct api_request *out) {
    const struct tree *value = given(reader->root, "logit_bias"), *member;
    struct tree_cursor cursor = {0};
    struct bytes name;
    if (!value) return true;
    if (tree_kind(value) != TREE_OBJECT)
        return wrong_type(reader, "logit_bias", "an object", value);
    struct token_bias *biases = arena_take(reader->arena, LIMIT_LOGIT_BIASES * sizeof *biases);
    if (!biases) return out_of_memory(reader);
    out->biases = biases;
    while (tree_next_member(value, &cursor, &name, &member)) {
        if (out->bias_count == LIMIT_LOGIT_BIASES)
            return api_error_set(reader->error, 422, "logit_bias", "out_of_range",
                                 "'logit_bias' has more than %d tokens.", LIMIT_LOGIT_BIASES);
        if (!read_bias(reader, name, member, &biases[out->bias_count++])) return false;
    }
    return true;
}

static bool read_stop_tokens(struct request_reader *reader, struct api_request *out) {
    const struct tree *value = given(reader->root, "stop_token_ids");
    if (!value) return true;
    if (tree_kind(value) != TREE_ARRAY)
        return wrong_type(reader, "stop_token_ids", "an array of token ids", value);
    size_t count = tree_count(value);
    if (count > LIMIT_STOP_TOKENS)
        return api_error_set(reader->error, 422, "stop_token_ids", "out_of_range",
                             "'stop_token_ids' has %zu ids, at most %d are allowed.", count,
                             LIMIT_STOP_TOKENS);
    uint32_t *tokens = arena_take(reader->arena, (count + 1) * sizeof *tokens);
    if (!tokens) return out_of_memory(reader);
    for (size_t i = 0; i < count; i++) {
        int64_t id;
        if (!tree_get_integer(tree_at(value, i), &id))
            return wrong_type(reader, "stop_token_ids", "an array of token ids", tree_at(value, i));
        if (id < 0 || id >= LIMIT_VOCAB)
            return api_error_set(reader->error, 422, "stop_token_ids", "out_of_range",
                                 "'stop_token_ids[%zu]' is %lld, which is no token id.", i,
                                 (long long)id);
        tokens[i] = (uint32_t)id;
    }
    out->stop_tokens = tokens;
    out->stop_token_count = (uint32_t)count;
    return true;
}

/* ---- log probabilities, choices ---- */

/* Chats: "logprobs" is a flag, "top_logprobs" the number of others; completions: "logprobs" is that
 * number. */
static bool read_logprobs(struct request_reader *reader, struct api_request *out) {
    struct sampling *sampling = &out->sampling;
    if (out->endpoint == API_COMPLETIONS) {
        if (!given(reader->root, "logprobs")) return true;
        sampling->flags |= SAMPLING_LOGPROBS;
        return read_within(reader, "logprobs", 0, LIMIT_TOP_LOGPROBS, &sampling->top_logprobs);
    }
    bool asked = false;
    if (!read_flag(reader, reader->root, "logprobs", &asked) ||
        !read_within(reader, "top_logprobs", 0, LIMIT_TOP_LOGPROBS, &sampling->top_logprobs))
        return false;
    if (asked) sampling->flags |= SAMPLING_LOGPROBS;
    if (asked || sampling->top_logprobs == 0) return true;
    return api_error_set(reader->error, 400, "top_logprobs", "invalid_value",
                         "'top_logprobs' needs 'logprobs': true.");
}

static bool read_choices(struct request_reader *reader, struct api_request *out) {
    uint32_t best_of = 0;
    out->choice_count = 1;
    if (!read_within(reader, "n", 1, LIMIT_CHOICES, &out->choice_count) ||
        !read_count(reader, "best_of", 1, &best_of))
        return false;
    if (out->prompt_count * out->choice_count > LIMIT_ANSWERS)
        return api_error_set(reader->error, 422, "prompt", "out_of_range",
                             "'prompt' has %u prompts, each with %u answers ('n'): %u; a request "
                             "may have at most %d.",
                             out->prompt_count, out->choice_count,
                             out->prompt_count * out->choice_count, LIMIT_ANSWERS);
    if (best_of == 0 || best_of == out->choice_count) return true;
    return api_error_set(reader->error, 400, "best_of", "unsupported_parameter",
                         "'best_of' must equal 'n': all answers are returned.");
}

static bool read_echo(struct request_reader *reader, struct api_request *out) {
    if (out->endpoint == API_CHAT) return true;
    if (!read_flag(reader, reader->root, "echo", &out->echo)) return false;
    if (out->echo && (out->sampling.flags & SAMPLING_LOGPROBS))
        out->sampling.flags |= SAMPLING_SCORES;
    return true;
}

/* ---- what we do not do ---- */

/* A value that asks for nothing: null, false, 0 (or `number`), "", [] or {}. */
static bool is_neutral(const struct tree *value, double number) {
    struct tree_cursor cursor = {0};
    struct bytes text;
    const struct tree *member;
    double found;
    switch (tree_kind(value)) {
    case TREE_NULL:
    case TREE_FALSE:
        return true;
    case TREE_STRING:
        return tree_get_string(value, &text) && text.count == 0;
    case TREE_ARRAY:
        return tree_count(value) == 0;
    case TREE_OBJECT:
        return !tree_next_member(value, &cursor, &text, &member);
    default:
        return tree_get_number(value, &found) && found == number;
    }
}

static bool is_text(const struct tree *value, const char *expected) {
    struct bytes text;
    return value && tree_get_string(value, &text) && bytes_equal(text, bytes_of(expected));
}

static bool refuse_unsupported(struct request_reader *reader) {
    static const struct {
        const char *name;
        double neutral;
        const char *why;
    } rows[] = {
        {"tools", 0, "Tools are not supported yet."},
        {"functions", 0, "Functions are not supported yet."},
        {"suffix", 0, "Completion with a 'suffix' (fill in the middle) is not supported yet."},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const struct tree *value = tree_member(reader->root, rows[i].name);
        if (value && !is_neutral(value, rows[i].neutral))
            return api_error_set(reader->error, 400, rows[i].name, "unsupported_parameter", "%s",
                                 rows[i].why);
    }
    const struct tree *format = given(reader->root, "response_format");
    if (format &&
        !is_text(tree_kind(format) == TREE_OBJECT ? tree_member(format, "type") : NULL, "text"))
        return api_error_set(reader->error, 400, "response_format", "unsupported_parameter",
                             "Only the response format {\"type\": \"text\"} is supported yet.");
    return true;
}

/* ---- stop strings and model ---- */

static bool add_stop(struct request_reader *reader, struct stop_strings *stops,
                     const struct tree *value) {
    struct bytes text;
    struct error reason;
    if (!tree_get_string(value, &text))
        return wrong_type(reader, "stop", "a string or an array of strings", value);
    if (stop_strings_add(stops, text, &reason))
        return api_error_set(reader->error, 422, "stop", "out_of_range", "'stop': %s", reason.text);
    return true;
}

static bool read_stops(struct request_reader *reader, struct api_request *out) {
    const struct tree *value = given(reader->root, "stop");
    if (!value || (tree_kind(value) == TREE_ARRAY && tree_count(value) == 0)) return true;
    if (tree_kind(value) == TREE_ARRAY && tree_count(value) > LIMIT_STOP_STRINGS)
        return api_error_set(reader->error, 422, "stop", "out_of_range",
                             "'stop' has %zu strings, at most %d are allowed.", tree_count(value),
                             LIMIT_STOP_STRINGS);
    struct stop_strings *stops = arena_take_zeroed(reader->arena, sizeof *stops);
    if (!stops) return out_of_memory(reader);
    out->stops = stops;
    if (tree_kind(value) != TREE_ARRAY) return add_stop(reader, stops, value);
    for (size_t i = 0; i < tree_count(value); i++)
        if (!add_stop(reader, stops, tree_at(value, i))) return false;
    return true;
}

static bool read_model(struct request_reader *reader, struct bytes served) {
    const struct tree *value = given(reader->root, "model");
    struct bytes name;
    if (!value) return true;
    if (!tree_get_string(value, &name)) return wrong_type(reader, "model", "a string", value);
    if (name.count == 0 || bytes_equal(name, BYTES_LITERAL("default")) || bytes_equal(name, served))
        return true;
    return api_error_set(reader->error, 404, "model", "model_not_found",
                         "The model '%.*s' does not exist here; '%.*s' is served.",
                         name.count < 100 ? (int)name.count : 100, name.data,
                         served.count < 100 ? (int)served.count : 100, served.data);
}

/* ---- messages ---- */

struct request_place { /* of what is being read, for messages: "messages[3].content[0].text" */
    char text[64];
};

static struct request_place place_of(size_t message, const char *rest) {
    struct request_place place;
    format_text(place.text, sizeof place.text, "messages[%zu]%s", message, rest);
    return place;
}

static struct request_place place_of_prompt(size_t prompt) {
    struct request_place place;
    format_text(place.text, sizeof place.text, "prompt[%zu]", prompt);
    return place;
}

static bool read_part(struct request_reader *reader, const struct tree *part, const char *place,
                      struct bytes *out) {
    if (tree_kind(part) != TREE_OBJECT)
        return wrong_type(reader, place, "an array of objects", part);
    if (!is_text(tree_member(part, "type"), "text"))
        return api_error_set(reader->error, 400, place, "unsupported_parameter",
                             "'%s': only parts of the type 'text' are supported.", place);
    const struct tree *text = tree_member(part, "text");
    if (text && tree_get_string(text, out)) return true;
    return api_error_set(reader->error, 400, place, "invalid_type",
                         "'%s': a part of the type 'text' needs a string 'text'.", place);
}

/* Joins the parts' texts without anything between, as the templates do. */
static bool read_parts(struct request_reader *reader, const struct tree *parts, const char *place,
                       struct bytes *out) {
    size_t total = 0, used = 0;
    struct bytes text;
    for (size_t i = 0; i < tree_count(parts); i++) {
        if (!read_part(reader, tree_at(parts, i), place, &text)) return false;
        total += text.count;
    }
    char *joined = arena_take(reader->arena, total + 1);
    if (!joined) return out_of_memory(reader);
    for (size_t i = 0; i < tree_count(parts); i++) {
        if (!read_part(reader, tree_at(parts, i), place, &text)) return false;
        if (text.count) memcpy(joined + used, text.data, text.count);
        used += text.count;
    }
    *out = (struct bytes){joined, total};
    return true;
}

static bool read_content(struct request_reader *reader, const struct tree *message, size_t index,
                         struct chat_message *out) {
    struct request_place place = place_of(index, ".content");
    const struct tree *value = given(message, "content");
    if (!value) {
        if (out->role == CHAT_ASSISTANT) return true;
        return api_error_set(reader->error, 400, place.text, "missing_required_parameter",
                             "'%s' is missing; only an assistant's content may be null.",
                             place.text);
    }
    out->has_content = true;
    if (tree_get_string(value, &out->content)) return true;
    if (tree_kind(value) == TREE_ARRAY) return read_parts(reader, value, place.text, &out->content);
    return wrong_type(reader, place.text, "a string or an array of parts", value);
}

static bool read_tool_call(const struct tree *call, struct chat_tool_call *out) {
    if (tree_kind(call) != TREE_OBJECT) return false;
    const struct tree *function = given(call, "function"), *type = given(call, "type");
    out->type = BYTES_LITERAL("function");
    if (type && !tree_get_string(type, &out->type)) return false;
    if (!function || tree_kind(function) != TREE_OBJECT) return false;
    const struct tree *name = given(function, "name"), *arguments = given(function, "arguments");
    return name && arguments && tree_get_string(name, &out->name) &&
           tree_get_string(arguments, &out->arguments);
}

/* Calls that an assistant made earlier in the conversation. */
static bool read_tool_calls(struct request_reader *reader, const struct tree *message, size_t index,
                            struct chat_message *out) {
    const struct tree *value = given(message, "tool_calls");
    if (!value) return true;
    struct request_place place = place_of(index, ".tool_calls");
    if (tree_kind(value) != TREE_ARRAY) return wrong_type(reader, place.text, "an array", value);
    size_t count = tree_count(value);
    struct chat_tool_call *calls = arena_take_zeroed(reader->arena, (count + 1) * sizeof *calls);
    if (!calls) return out_of_memory(reader);
    for (size_t i = 0; i < count; i++)
        if (!read_tool_call(tree_at(value, i), &calls[i]))
            return api_error_set(
                reader->error, 400, place.text, "invalid_type",
                "'%s': each call needs {\"type\": string, \"function\": {\"name\": "
                "string, \"arguments\": string}}.",
                place.text);
    out->tool_calls = calls;
    out->tool_call_count = count;
    if (count > 0 && out->content.count == 0) /* clients send "" for null */
        out->has_content = false;
    return true;
}

static bool read_role(struct request_reader *reader, const struct tree *message, size_t index,
                      enum chat_role *out) {
    struct request_place place = place_of(index, ".role");
    const struct tree *value = given(message, "role");
    struct bytes role;
    if (!value)
        return api_error_set(reader->error, 400, place.text, "missing_required_parameter",
                             "'%s' is missing.", place.text);
    if (!tree_get_string(value, &role)) return wrong_type(reader, place.text, "a string", value);
    if (bytes_equal(role, BYTES_LITERAL("developer"))) role = BYTES_LITERAL("system");
    if (chat_role_from_text(role, out)) return true;
    return api_error_set(reader->error, 422, place.text, "invalid_value",
                         "'%s' is '%.*s', must be system, user, assistant or tool.", place.text,
                         role.count < 50 ? (int)role.count : 50, role.data);
}

static bool read_message(struct request_reader *reader, const struct tree *message, size_t index,
                         struct chat_message *out) {
    struct request_place place = place_of(index, "");
    if (tree_kind(message) != TREE_OBJECT)
        return wrong_type(reader, place.text, "an object", message);
    if (!read_role(reader, message, index, &out->role) ||
        !read_content(reader, message, index, out) || !read_tool_calls(reader, message, index, out))
        return false;
    const struct tree *prefix = tree_member(message, "prefix");
    if (!prefix || is_neutral(prefix, 0)) return true;
    place = place_of(index, ".prefix");
    return api_error_set(reader->error, 400, place.text, "unsupported_parameter",
                         "'%s': continuing an assistant's message is not supported yet.",
                         place.text);
}

static bool read_messages(struct request_reader *reader, struct api_request *out) {
    const struct tree *value = given(reader->root, "messages");
    if (!value)
        return api_error_set(reader->error, 400, "messages", "missing_required_parameter",
                             "'messages' is missing.");
    if (tree_kind(value) != TREE_ARRAY) return wrong_type(reader, "messages", "an array", value);
    size_t count = tree_count(value);
    if (count == 0)
        return api_error_set(reader->error, 400, "messages", "invalid_value",
                             "'messages' is empty; send at least one.");
    struct chat_message *messages = arena_take_zeroed(reader->arena, count * sizeof *messages);
    if (!messages) return out_of_memory(reader);
    for (size_t i = 0; i < count; i++)
        if (!read_message(reader, tree_at(value, i), i, &messages[i])) return false;
    out->messages = messages;
    out->message_count = count;
    return true;
}

/* ---- prompts ---- */

/* `place`: of the array, such as "prompt" or "prompt[3]". */
static bool read_prompt_tokens(struct request_reader *reader, const struct tree *array,
                               const char *place, struct api_prompt *out) {
    size_t count = tree_count(array);
    uint32_t *tokens = arena_take(reader->arena, (count + 1) * sizeof *tokens);
    if (!tokens) return out_of_memory(reader);
    for (size_t i = 0; i < count; i++) {
        int64_t id;
        if (!tree_get_integer(tree_at(array, i), &id))
            return wrong_type(reader, place, "a string or an array of token ids",
                              tree_at(array, i));
        if (id < 0 || id >= LIMIT_VOCAB)
            return api_error_set(reader->error, 422, place, "out_of_range",
                                 "'%s[%zu]' is %lld, which is no token id.", place, i,
                                 (long long)id);
        tokens[i] = (uint32_t)id;
    }
    out->tokens = tokens;
    out->token_count = count;
    return true;
}

/* Each prompt is of the kind of the first. */
static bool read_prompts(struct request_reader *reader, const struct tree *array,
                         struct api_prompt *prompts) {
    enum tree_kind kind = tree_kind(tree_at(array, 0));
    struct request_place place = {"prompt"};
    for (size_t i = 0; i < tree_count(array); i++) {
        const struct tree *value = tree_at(array, i);
        if (tree_count(array) > 1) place = place_of_prompt(i);
        if (tree_kind(value) != kind)
            return wrong_type(reader, place.text,
                              kind == TREE_ARRAY ? "an array of token ids, as prompt[0] is"
                                                 : "a string, as prompt[0] is",
                              value);
        if (kind == TREE_STRING && !tree_get_string(value, &prompts[i].text)) return false;
        if (kind == TREE_ARRAY && !read_prompt_tokens(reader, value, place.text, &prompts[i]))
            return false;
    }
    return true;
}

static bool read_prompt(struct request_reader *reader, struct api_request *out) {
    const struct tree *value = given(reader->root, "prompt");
    if (!value)
        return api_error_set(reader->error, 400, "prompt", "missing_required_parameter",
                             "'prompt' is missing.");
    enum tree_kind kind = tree_kind(value);
    if (kind != TREE_STRING && kind != TREE_ARRAY)
        return wrong_type(reader, "prompt", "a string or an array", value);
    if (kind == TREE_ARRAY && tree_count(value) == 0)
        return api_error_set(reader->error, 400, "prompt", "invalid_value", "'prompt' is empty.");
    enum tree_kind first = kind == TREE_ARRAY ? tree_kind(tree_at(value, 0)) : kind;
    if (kind == TREE_ARRAY && first != TREE_INTEGER && first != TREE_STRING && first != TREE_ARRAY)
        return wrong_type(reader, "prompt[0]", "a string, a token id or an array of token ids",
                          tree_at(value, 0));
    bool several = kind == TREE_ARRAY && first != TREE_INTEGER;
    size_t count = several ? tree_count(value) : 1;
    if (count > LIMIT_ANSWERS)
        return api_error_set(reader->error, 422, "prompt", "out_of_range",
                             "'prompt' has %zu prompts; a request may have at most %d.", count,
                             LIMIT_ANSWERS);
    struct api_prompt *prompts = arena_take_zeroed(reader->arena, count * sizeof *prompts);
    if (!prompts) return out_of_memory(reader);
    out->prompts = prompts;
    out->prompt_count = (uint32_t)count;
    if (several) return read_prompts(reader, value, prompts);
    return kind == TREE_STRING ? tree_get_string(value, &prompts->text)
                               : read_prompt_tokens(reader, value, "prompt", prompts);
}

/* ---- the whole ---- */

static bool read_stream(struct request_reader *reader, struct api_request *out) {
    if (!read_flag(reader, reader->root, "stream", &out->stream)) return false;
    const struct tree *options = given(reader->root, "stream_options");
    if (!options) return true;
    if (tree_kind(options) != TREE_OBJECT)
        return wrong_type(reader, "stream_options", "an object", options);
    return read_flag(reader, options, "include_usage", &out->include_usage);
}

static bool read_cache_salt(struct request_reader *reader, struct api_request *out) {
    const struct tree *value = given(reader->root, "cache_salt");
    if (!value || tree_get_string(value, &out->cache_salt)) return true;
    return wrong_type(reader, "cache_salt", "a string", value);
}

/* Parsing takes time by the part. */
static bool check_extent(enum api_endpoint endpoint, struct bytes body, uint64_t tokens_max,
                         struct api_error *error) {
    struct tree_extent most = {{[TREE_PART_DEPTH] = LIMIT_BODY_DEPTH,
                                [TREE_PART_KEYS] = LIMIT_BODY_KEYS,
                                [TREE_PART_INTEGERS] = LIMIT_BODY_INTEGERS,
                                [TREE_PART_VALUES] = LIMIT_BODY_VALUES}},
                       found;
    if (!tokens_max) tokens_max = LIMIT_CONTEXT;
    if (endpoint == API_COMPLETIONS)
        most.counts[TREE_PART_INTEGERS] += max_u64(tokens_max, LIMIT_PROMPTS_IDS);
    enum tree_part part = tree_extent_measure(body, &most, &found);
    if (part == TREE_PART_COUNT) return true;
    if (part == TREE_PART_INTEGERS && endpoint == API_COMPLETIONS)
        return api_error_set(
            error, 400, "prompt", "context_length_exceeded",
            "The request body has more than %zu integers; a prompt of token ids "
            "can have no more than this server's context, %llu. Shorten the prompt, or send fewer "
            "prompts at once.",
            most.counts[part], (unsigned long long)tokens_max);
    return api_error_set(error, 413, NULL, "request_too_large",
                         "The request body has more than %zu %s; that is the limit. Send a "
                         "smaller one.",
                         most.counts[part], tree_part_name(part));
}

bool api_request_parse(struct arena *arena, enum api_endpoint endpoint, struct bytes body,
                       const struct api_defaults *defaults, struct api_request *out,
                       struct api_error *error) {
    struct request_reader reader = {.arena = arena, .error = error};
    struct error reason;
    if (!check_extent(endpoint, body, defaults->tokens_max, error)) return false;
    enum status status = tree_parse(arena, body, "request body", &reader.root, &reason);
    if (status == STATUS_NO_MEMORY) return out_of_memory(&reader);
    if (status) return api_error_set(error, 400, NULL, "invalid_json", "%s", reason.text);
    if (tree_kind(reader.root) != TREE_OBJECT)
        return api_error_set(error, 400, NULL, "invalid_type",
                             "The request body must be a JSON object, found %s.",
                             tree_kind_name(tree_kind(reader.root)));
    struct api_request request = {
        .endpoint = endpoint, .sampling = defaults->sampling, .prompt_count = 1};
    bool read = read_model(&reader, defaults->model_name) &&
                (endpoint == API_CHAT ? read_messages(&reader, &request)
                                      : read_prompt(&reader, &request)) &&
                refuse_unsupported(&reader) && read_logprobs(&reader, &request) &&
                read_echo(&reader, &request) && read_sampling(&reader, &request) &&
                read_biases(&reader, &request) && read_stop_tokens(&reader, &request) &&
                read_choices(&reader, &request) && read_stops(&reader, &request) &&
                read_stream(&reader, &request) &&
                read_flag(&reader, reader.root, "ignore_eos", &request.ignore_eos) &&
                read_flag(&reader, reader.root, "return_token_ids", &request.return_token_ids) &&
                read_flag(&reader, reader.root, "return_receipt", &request.return_receipt) &&
                read_cache_salt(&reader, &request);
    if (read) *out = request;
    return read;
}
