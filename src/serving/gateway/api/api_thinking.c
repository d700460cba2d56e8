/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/api_thinking.h"

#include "base/check.h"

/* Refuses a mode that the model's template does not support. */
static bool check_able(struct api_reader *reader, const char *field, enum chat_thinking thinking) {
    enum chat_thought thought = reader->defaults->thought;
    if (thinking == CHAT_THINKING_OFF && thought == CHAT_THOUGHT_ALWAYS)
        return api_reader_unsupported(reader, field,
                                      "thinking cannot be switched off with this model.");
    if (thinking == CHAT_THINKING_ON && thought == CHAT_THOUGHT_NEVER)
        return api_reader_unsupported(reader, field, "this model cannot think.");
    return true;
}

bool api_thinking_ask(struct api_reader *reader, const char *field, enum chat_thinking thinking,
                      struct api_request *out) {
    if (out->thinking_field && out->thinking != thinking)
        return api_error_set(reader->error, 400, field, "invalid_value",
                             "'%s' and '%s' contradict each other about thinking.",
                             out->thinking_field, field);
    out->thinking_field = field;
    out->thinking = thinking;
    return check_able(reader, field, thinking);
}

bool api_thinking_ask_effort(struct api_reader *reader, const char *field, struct bytes effort,
                             struct api_request *out) {
    static const struct {
        const char *name;
        enum chat_thinking thinking;
    } efforts[] = {
        {"none", CHAT_THINKING_OFF},  {"minimal", CHAT_THINKING_OFF}, {"low", CHAT_THINKING_ON},
        {"medium", CHAT_THINKING_ON}, {"high", CHAT_THINKING_ON},     {"xhigh", CHAT_THINKING_ON},
        {"max", CHAT_THINKING_ON},
    };
    size_t i = 0;
    while (i < ARRAY_COUNT(efforts) && !bytes_equal(effort, bytes_of(efforts[i].name)))
        i++;
    if (i == ARRAY_COUNT(efforts))
        return api_error_set(reader->error, 422, field, "invalid_value",
                             "'%s' is '%.*s', must be none, minimal, low, medium, high, xhigh or "
                             "max.",
                             field, effort.count < 50 ? (int)effort.count : 50, effort.data);
    out->effort = effort;
    if (efforts[i].thinking == CHAT_THINKING_OFF)
        return api_thinking_ask(reader, field, CHAT_THINKING_OFF, out);
    bool can_switch = reader->defaults->thought == CHAT_THOUGHT_SWITCHED;
    if (can_switch && !out->thinking_field) out->thinking = CHAT_THINKING_ON;
    return true;
}

bool api_thinking_read(struct api_reader *reader, const struct tree *value,
                       struct api_request *out) {
    if (tree_kind(value) != TREE_OBJECT)
        return api_reader_wrong_type(reader, "thinking", "an object", value);
    const struct tree *type = tree_member(value, "type");
    if (api_reader_is(type, "enabled"))
        return api_thinking_ask(reader, "thinking", CHAT_THINKING_ON, out);
    if (api_reader_is(type, "disabled"))
        return api_thinking_ask(reader, "thinking", CHAT_THINKING_OFF, out);
    if (api_reader_is(type, "auto") || api_reader_is(type, "adaptive")) return true;
    return api_error_set(reader->error, 400, "thinking", "invalid_value",
                         "'thinking' needs a 'type': enabled, disabled or auto.");
}

bool api_thinking_read_flag(struct api_reader *reader, const struct tree *value,
                            struct api_request *out) {
    bool on;
    if (!tree_get_bool(value, &on))
        return api_reader_wrong_type(reader, "enable_thinking", "a boolean", value);
    return api_thinking_ask(reader, "enable_thinking", on ? CHAT_THINKING_ON : CHAT_THINKING_OFF,
                            out);
}

/* Reads variables of the chat template. The two that enable thinking work like fields. */
bool api_thinking_read_variables(struct api_reader *reader, const struct tree *value,
                                 struct api_request *out) {
    static const char *const names[] = {"thinking", "enable_thinking"};
    if (tree_kind(value) != TREE_OBJECT)
        return api_reader_wrong_type(reader, "chat_template_kwargs", "an object", value);
    out->variables = value;
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        bool on;
        if (tree_get_bool(tree_member(value, names[i]), &on) &&
            !api_thinking_ask(reader, "chat_template_kwargs",
                              on ? CHAT_THINKING_ON : CHAT_THINKING_OFF, out))
            return false;
    }
    return true;
}

bool api_thinking_read_effort(struct api_reader *reader, const struct tree *value,
                              struct api_request *out) {
    struct bytes effort;
    if (!tree_get_string(value, &effort))
        return api_reader_wrong_type(reader, "reasoning_effort", "a string", value);
    return api_thinking_ask_effort(reader, "reasoning_effort", effort, out);
}
