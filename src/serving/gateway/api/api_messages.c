/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/api_messages.h"

#include "base/check.h"

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
    struct api_place place = api_reader_place_of("messages", index, ".content");
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
    const struct tree *id = api_reader_given(call, "id");
    if (type && !tree_get_string(type, &text)) return false;
    if (id && !tree_get_string(id, &text)) return false;
    return tree_get_string(tree_member(function, "name"), &text) &&
           tree_get_string(tree_member(function, "arguments"), &text);
}

static bool check_calls(struct api_reader *reader, const struct tree *message, size_t index) {
    const struct tree *value = api_reader_given(message, "tool_calls");
    if (!value) return true;
    struct api_place place = api_reader_place_of("messages", index, ".tool_calls");
    if (tree_kind(value) != TREE_ARRAY)
        return api_reader_wrong_type(reader, place.text, "an array", value);
    for (size_t i = 0; i < tree_count(value); i++)
        if (!is_call(tree_at(value, i)))
            return api_error_set(
                reader->error, 400, place.text, "invalid_type",
                "'%s': each call needs {\"id\": string, \"type\": string, \"function\": {\"name\": "
                "string, \"arguments\": string}}.",
                place.text);
    return true;
}

/* ---- messages ---- */

static bool check_role(struct api_reader *reader, const struct tree *message, size_t index) {
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
    struct api_place place = api_reader_place_of("messages", index, ".role");
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

/* Checks a member that a template may use as a string. */
static bool api_messages_check_text(struct api_reader *reader, const struct tree *message,
                                    size_t index, const char *name, const char *rest) {
    struct api_place place = api_reader_place_of("messages", index, rest);
    const struct tree *value = api_reader_given(message, name);
    struct bytes text;
    return !value || tree_get_string(value, &text) ||
           api_reader_wrong_type(reader, place.text, "a string", value);
}

/* Refuses members of other APIs, and of answers that this server does not make, such as audio. */
static bool check_others(struct api_reader *reader, const struct tree *message, size_t index) {
    static const struct {
        const char *name, *rest, *why;
    } refused[] = {
        {"function_call", ".function_call", "functions are called as 'tool_calls' here."},
        {"audio", ".audio", "messages are text."},
        {"refusal", ".refusal", "send a refusal as 'content'."},
    };
    for (size_t i = 0; i < ARRAY_COUNT(refused); i++) {
        const struct tree *value = tree_member(message, refused[i].name);
        struct api_place place = api_reader_place_of("messages", index, refused[i].rest);
        if (value && !api_reader_is_neutral(value, NULL))
            return api_reader_unsupported(reader, place.text, refused[i].why);
    }
    return true;
}

static bool check_message(struct api_reader *reader, const struct tree *message, size_t index) {
    struct api_place place = api_reader_place_of("messages", index, "");
    if (tree_kind(message) != TREE_OBJECT)
        return api_reader_wrong_type(reader, place.text, "an object", message);
    if (!check_role(reader, message, index)) return false;
    bool assistant = api_reader_is(tree_member(message, "role"), "assistant");
    return check_others(reader, message, index) &&
           check_content(reader, message, index, assistant) &&
           check_calls(reader, message, index) &&
           api_messages_check_text(reader, message, index, "name", ".name") &&
           api_messages_check_text(reader, message, index, "tool_call_id", ".tool_call_id") &&
           api_messages_check_text(reader, message, index, "reasoning_content",
                                   ".reasoning_content");
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

/* ---- an answer that continues a message ---- */

static bool is_assistant(const struct tree *message) {
    return api_reader_is(tree_member(message, "role"), "assistant");
}

bool api_messages_check_last(struct api_reader *reader, const struct tree *messages,
                             const char *place) {
    const struct tree *last = tree_at(messages, tree_count(messages) - 1);
    bool said = api_reader_given(last, "content") || api_reader_given(last, "reasoning_content");
    bool calls = tree_count(tree_member(last, "tool_calls")) > 0;
    return (is_assistant(last) && said && !calls) ||
           api_error_set(reader->error, 400, place, "invalid_value",
                         "'%s': only an assistant's message with text, the last of all, can be "
                         "continued.",
                         place);
}

bool api_messages_continue(struct api_reader *reader, const struct tree *messages, bool *out) {
    for (size_t i = 0; i < tree_count(messages); i++) {
        struct api_place place = api_reader_place_of("messages", i, ".prefix");
        const struct tree *value = api_reader_given(tree_at(messages, i), "prefix");
        bool prefix = false;
        if (!value) continue;
        if (!tree_get_bool(value, &prefix))
            return api_reader_wrong_type(reader, place.text, "a boolean", value);
        if (!prefix) continue;
        if (i + 1 < tree_count(messages))
            return api_error_set(reader->error, 400, place.text, "invalid_value",
                                 "'%s': only the last message can be continued.", place.text);
        *out = true;
        return api_messages_check_last(reader, messages, place.text);
    }
    return true;
}
