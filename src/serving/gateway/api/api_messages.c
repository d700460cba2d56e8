/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/api_messages.h"

/* ---- content ---- */

static bool check_part(struct api_reader *reader, const struct tree *part, const char *place) {
    if (tree_kind(part) != TREE_OBJECT)
        return api_reader_wrong_type(reader, place, "an array of objects", part);
    if (!api_reader_is(tree_member(part, "type"), "text"))
        return api_reader_unsupported(reader, place,
                                      "only parts of the type 'text' are supported.");
    struct bytes text;
    if (tree_get_string(tree_member(part, "text"), &text)) return true;
    return api_error_set(reader->error, 400, place, "invalid_type",
                         "'%s': a part of the type 'text' needs a string 'text'.", place);
}

static bool check_content(struct api_reader *reader, const struct tree *message, size_t index,
                          bool may_be_null) {
    struct api_place place = api_place_of("messages", index, ".content");
    const struct tree *value = api_reader_given(message, "content");
    struct bytes text;
    if (!value)
        return may_be_null ||
               api_error_set(reader->error, 400, place.text, "missing_required_parameter",
                             "'%s' is missing; only an assistant's content may be null.",
                             place.text);
    if (tree_get_string(value, &text)) return true;
    if (tree_kind(value) != TREE_ARRAY)
        return api_reader_wrong_type(reader, place.text, "a string or an array of parts", value);
    for (size_t i = 0; i < tree_count(value); i++)
        if (!check_part(reader, tree_at(value, i), place.text)) return false;
    return true;
}

/* ---- calls that an assistant made earlier in the conversation ---- */

static bool is_call(const struct tree *call) {
    struct bytes text;
    if (tree_kind(call) != TREE_OBJECT) return false;
    const struct tree *function = api_reader_given(call, "function");
    const struct tree *type = api_reader_given(call, "type");
    if (type && !tree_get_string(type, &text)) return false;
    return tree_get_string(tree_member(function, "name"), &text) &&
           tree_get_string(tree_member(function, "arguments"), &text);
}

static bool check_calls(struct api_reader *reader, const struct tree *message, size_t index) {
    const struct tree *value = api_reader_given(message, "tool_calls");
    if (!value) return true;
    struct api_place place = api_place_of("messages", index, ".tool_calls");
    if (tree_kind(value) != TREE_ARRAY)
        return api_reader_wrong_type(reader, place.text, "an array", value);
    for (size_t i = 0; i < tree_count(value); i++)
        if (!is_call(tree_at(value, i)))
            return api_error_set(
                reader->error, 400, place.text, "invalid_type",
                "'%s': each call needs {\"type\": string, \"function\": {\"name\": "
                "string, \"arguments\": string}}.",
                place.text);
    return true;
}

/* ---- messages ---- */

static bool check_role(struct api_reader *reader, const struct tree *message, size_t index) {
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
    struct api_place place = api_place_of("messages", index, ".role");
    const struct tree *value = api_reader_given(message, "role");
    struct bytes role;
    if (!value) return api_reader_missing(reader, place.text);
    if (!tree_get_string(value, &role))
        return api_reader_wrong_type(reader, place.text, "a string", value);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (bytes_equal(role, bytes_of(roles[i]))) return true;
    return api_error_set(reader->error, 422, place.text, "invalid_value",
                         "'%s' is '%.*s', must be system, user, assistant or tool.", place.text,
                         role.count < 50 ? (int)role.count : 50, role.data);
}

static bool check_message(struct api_reader *reader, const struct tree *message, size_t index) {
    struct api_place place = api_place_of("messages", index, "");
    if (tree_kind(message) != TREE_OBJECT)
        return api_reader_wrong_type(reader, place.text, "an object", message);
    if (!check_role(reader, message, index)) return false;
    bool assistant = api_reader_is(tree_member(message, "role"), "assistant");
    if (!check_content(reader, message, index, assistant) || !check_calls(reader, message, index))
        return false;
    const struct tree *prefix = tree_member(message, "prefix");
    if (!prefix || api_reader_is_neutral(prefix, NULL)) return true;
    place = api_place_of("messages", index, ".prefix");
    return api_reader_unsupported(reader, place.text,
                                  "continuing an assistant's message is not supported yet.");
}

bool api_messages_check(struct api_reader *reader, const struct tree *messages) {
    if (tree_kind(messages) != TREE_ARRAY)
        return api_reader_wrong_type(reader, "messages", "an array", messages);
    if (tree_count(messages) == 0)
        return api_error_set(reader->error, 400, "messages", "invalid_value",
                             "'messages' is empty; send at least one.");
    for (size_t i = 0; i < tree_count(messages); i++)
        if (!check_message(reader, tree_at(messages, i), i)) return false;
    return true;
}
