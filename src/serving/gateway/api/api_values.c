/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/api_values.h"

/* ---- single values ---- */

const struct api_model *api_values_find_model(const struct api_model *models, size_t count,
                                              struct bytes name) {
    const struct bytes tag = BYTES_LITERAL(":latest");
    if (bytes_equal(name, BYTES_LITERAL("default"))) return &models[0];
    for (size_t i = 0; i < count; i++)
        if (bytes_equal(models[i].name, name)) return &models[i];
    if (name.count <= tag.count ||
        !bytes_equal((struct bytes){name.data + name.count - tag.count, tag.count}, tag))
        return NULL;
    name.count -= tag.count;
    for (size_t i = 0; i < count; i++)
        if (bytes_equal(models[i].name, name)) return &models[i];
    return NULL;
}

bool api_values_model(struct api_reader *reader, const struct tree *value,
                      struct api_request *out) {
    const struct api_defaults *defaults = reader->defaults;
    struct bytes name;
    if (!tree_get_string(value, &name))
        return api_reader_wrong_type(reader, "model", "a string", value);
    if (name.count == 0 || bytes_equal(name, BYTES_LITERAL("default"))) return true;
    const struct api_model *model =
        api_values_find_model(defaults->models, defaults->model_count, name);
    if (!model && defaults->any_model && name.count <= API_MODEL_NAME_BYTES_MAX)
        model = defaults->models;
    if (model) {
        if (!out->thinking_field) out->thinking = model->thinking;
        out->model = (uint32_t)(model - defaults->models);
        out->model_asked = name;
        return true;
    }
    struct bytes served = defaults->models[0].name;
    return api_error_set(reader->error, 404, "model", "model_not_found",
                         "The model '%.*s' does not exist here; '%.*s' is served.",
                         name.count < 100 ? (int)name.count : 100, name.data,
                         served.count < 100 ? (int)served.count : 100, served.data);
}

bool api_values_user_id(struct api_reader *reader, const struct tree *value,
                        struct api_request *out) {
    if (!tree_get_string(value, &out->user_id))
        return api_reader_wrong_type(reader, "user_id", "a string", value);
    return out->user_id.count == 0 || api_values_is_name(out->user_id, LIMIT_USER_ID) ||
           api_error_set(reader->error, 400, "user_id", "invalid_value",
                         "'user_id' must be of letters, digits, '_' and '-', at most %d.",
                         LIMIT_USER_ID);
}

bool api_values_is_name(struct bytes text, size_t count_max) {
    for (size_t i = 0; i < text.count; i++) {
        char c = text.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && c != '_' && c != '-') return false;
    }
    return text.count > 0 && text.count <= count_max;
}

bool api_values_top_k(struct api_reader *reader, const struct tree *value,
                      struct api_request *out) {
    uint32_t count = 0;
    if (!api_reader_integer(reader, reader->root, "top_k", -1, INT32_MAX, &count)) return false;
    out->sampling.top_k = count == (uint32_t)-1 ? 0 : count;
    return true;
}

bool api_values_modalities(struct api_reader *reader, const struct tree *value,
                           struct api_request *out) {
    bool text = tree_count(value) == 1 && api_reader_is(tree_at(value, 0), "text");
    return text || api_reader_is_neutral(value, NULL) ||
           api_reader_unsupported(reader, "modalities", "answers are text.");
}

bool api_values_documents(struct api_reader *reader, const struct tree *value,
                          struct api_request *out) {
    if (tree_kind(value) != TREE_ARRAY)
        return api_reader_wrong_type(reader, "documents", "an array", value);
    if (tree_count(value) == 0) return true;
    if (!reader->defaults->reads_documents)
        return api_reader_unsupported(reader, "documents",
                                      "this model's chat template has no place for documents; the "
                                      "server can be given one that has (--chat-template).");
    out->documents = value;
    return true;
}

bool api_values_seed(struct api_reader *reader, const struct tree *value, struct api_request *out) {
    if (!tree_get_word(value, &out->sampling.seed))
        return api_reader_wrong_number(reader, "seed", "an integer", value);
    out->has_seed = true;
    return true;
}

/* ---- lists of tokens ---- */

/* Parses a token id as JSON writes it, such as "123": no sign, no leading zero. */
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

static bool read_bias(struct api_reader *reader, struct bytes name, const struct tree *value,
                      struct token_bias *out) {
    double bias;
    if (!id_from_text(name, &out->token))
        return api_error_set(reader->error, 422, "logit_bias", "out_of_range",
                             "'logit_bias' has the name '%.*s', which is no token id.",
                             name.count < 50 ? (int)name.count : 50, name.data);
    if (!tree_get_number(value, &bias))
        return api_reader_wrong_number(reader, "logit_bias", "an object of numbers", value);
    out->bias = (float)bias;
    if (bias >= -100 && bias <= 100) return true;
    return api_error_set(reader->error, 422, "logit_bias", "out_of_range",
                         "'logit_bias' of token %u is %g, must be between -100 and 100.",
                         out->token, bias);
}

bool api_values_biases(struct api_reader *reader, const struct tree *value,
                       struct api_request *out) {
    const struct tree *member;
    struct tree_cursor cursor = {0};
    struct bytes name;
    if (tree_kind(value) != TREE_OBJECT)
        return api_reader_wrong_type(reader, "logit_bias", "an object", value);
    struct token_bias *biases = arena_take(reader->arena, LIMIT_LOGIT_BIASES * sizeof *biases);
    if (!biases) return api_reader_no_memory(reader);
    out->biases = biases;
    while (tree_next_member(value, &cursor, &name, &member)) {
        if (out->bias_count == LIMIT_LOGIT_BIASES)
            return api_error_set(reader->error, 422, "logit_bias", "out_of_range",
                                 "'logit_bias' has more than %d tokens.", LIMIT_LOGIT_BIASES);
        if (!read_bias(reader, name, member, &biases[out->bias_count++])) return false;
    }
    return true;
}

bool api_values_stop_tokens(struct api_reader *reader, const struct tree *value,
                            struct api_request *out) {
    static const char name[] = "stop_token_ids", expected[] = "an array of token ids";
    if (tree_kind(value) != TREE_ARRAY) return api_reader_wrong_type(reader, name, expected, value);
    size_t count = tree_count(value);
    if (count > LIMIT_STOP_TOKENS)
        return api_error_set(reader->error, 422, name, "out_of_range",
                             "'%s' has %zu ids, at most %d are allowed.", name, count,
                             LIMIT_STOP_TOKENS);
    uint32_t *tokens = arena_take(reader->arena, (count + 1) * sizeof *tokens);
    if (!tokens) return api_reader_no_memory(reader);
    for (size_t i = 0; i < count; i++)
        if (!api_reader_token(reader, name, expected, value, i, &tokens[i])) return false;
    out->stop_tokens = tokens;
    out->stop_token_count = (uint32_t)count;
    return true;
}

/* ---- stop strings ---- */

static bool add_stop(struct api_reader *reader, const char *name, struct stop_strings *stops,
                     const struct tree *value) {
    struct bytes text;
    struct error reason;
    if (!tree_get_string(value, &text))
        return api_reader_wrong_type(reader, name, "a string or an array of strings", value);
    if (token_stream_stop_strings_add(stops, text, &reason))
        return api_error_set(reader->error, 422, name, "out_of_range", "'%s': %s", name,
                             reason.text);
    return true;
}

bool api_values_stops_named(struct api_reader *reader, const char *name, const struct tree *value,
                            struct api_request *out) {
    if (tree_kind(value) == TREE_ARRAY && tree_count(value) == 0) return true;
    if (tree_kind(value) == TREE_ARRAY && tree_count(value) > LIMIT_STOP_STRINGS)
        return api_error_set(reader->error, 422, name, "out_of_range",
                             "'%s' has %zu strings, at most %d are allowed.", name,
                             tree_count(value), LIMIT_STOP_STRINGS);
    struct stop_strings *stops = arena_take_zeroed(reader->arena, sizeof *stops);
    if (!stops) return api_reader_no_memory(reader);
    out->stops = stops;
    if (tree_kind(value) != TREE_ARRAY) return add_stop(reader, name, stops, value);
    for (size_t i = 0; i < tree_count(value); i++)
        if (!add_stop(reader, name, stops, tree_at(value, i))) return false;
    return true;
}

bool api_values_stops(struct api_reader *reader, const struct tree *value,
                      struct api_request *out) {
    return api_values_stops_named(reader, "stop", value, out);
}

/* ---- objects ---- */

bool api_values_stream_options(struct api_reader *reader, const struct tree *value,
                               struct api_request *out) {
    if (tree_kind(value) != TREE_OBJECT)
        return api_reader_wrong_type(reader, "stream_options", "an object", value);
    const struct tree *each = api_reader_given(value, "continuous_usage_stats");
    if (each && !api_reader_is_neutral(each, NULL))
        return api_reader_unsupported(reader, "stream_options.continuous_usage_stats",
                                      "the usage comes once, in the last chunk; use "
                                      "'include_usage'.");
    return api_reader_flag(reader, value, "include_usage", &out->include_usage);
}
