/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/api_tools.h"

#include "serving/gateway/api/api_values.h"

static struct bytes name_of(const struct tree *tool) {
    struct bytes name = {"", 0};
    (void)tree_get_string(tree_member(tree_member(tool, "function"), "name"), &name);
    return name;
}

static bool check_function(struct api_reader *reader, const struct tree *function, size_t index) {
    struct api_place place = api_place_of("tools", index, ".function");
    if (!function) return api_reader_missing(reader, place.text);
    if (tree_kind(function) != TREE_OBJECT)
        return api_reader_wrong_type(reader, place.text, "an object", function);
    struct bytes text;
    place = api_place_of("tools", index, ".function.name");
    if (!tree_get_string(tree_member(function, "name"), &text) ||
        !api_values_is_name(text, LIMIT_TOOL_NAME))
        return api_error_set(reader->error, 400, place.text, "invalid_value",
                             "'%s' must be a name of letters, digits, '_' and '-', at most %d.",
                             place.text, LIMIT_TOOL_NAME);
    place = api_place_of("tools", index, ".function.description");
    const struct tree *value = api_reader_given(function, "description");
    if (value && !tree_get_string(value, &text))
        return api_reader_wrong_type(reader, place.text, "a string", value);
    place = api_place_of("tools", index, ".function.parameters");
    value = api_reader_given(function, "parameters");
    if (value && tree_kind(value) != TREE_OBJECT)
        return api_reader_wrong_type(reader, place.text, "an object", value);
    place = api_place_of("tools", index, ".function.strict");
    value = api_reader_given(function, "strict");
    return !value || api_reader_is_neutral(value, NULL) ||
           api_reader_unsupported(reader, place.text, API_CONSTRAINED);
}

static bool check_tool(struct api_reader *reader, const struct tree *tools, size_t index) {
    struct api_place place = api_place_of("tools", index, "");
    const struct tree *tool = tree_at(tools, index);
    if (tree_kind(tool) != TREE_OBJECT)
        return api_reader_wrong_type(reader, place.text, "an object", tool);
    place = api_place_of("tools", index, ".type");
    if (!api_reader_is(tree_member(tool, "type"), "function"))
        return api_reader_unsupported(reader, place.text, "only 'function' is supported.");
    if (!check_function(reader, api_reader_given(tool, "function"), index)) return false;
    place = api_place_of("tools", index, ".function.name");
    for (size_t i = 0; i < index; i++)
        if (bytes_equal(name_of(tree_at(tools, i)), name_of(tool)))
            return api_error_set(reader->error, 400, place.text, "invalid_value",
                                 "'%s': two tools have the same name.", place.text);
    return true;
}

bool api_tools_check(struct api_reader *reader, const struct tree *tools) {
    if (tree_kind(tools) != TREE_ARRAY)
        return api_reader_wrong_type(reader, "tools", "an array", tools);
    if (tree_count(tools) > LIMIT_TOOLS)
        return api_error_set(reader->error, 422, "tools", "out_of_range",
                             "'tools' has %zu tools, at most %d are allowed.", tree_count(tools),
                             LIMIT_TOOLS);
    for (size_t i = 0; i < tree_count(tools); i++)
        if (!check_tool(reader, tools, i)) return false;
    return true;
}

bool api_tools_give(struct api_reader *reader, const struct tree *tools, struct api_request *out) {
    if (tree_count(tools) == 0) return true;
    if (!reader->defaults->prints_tools)
        return api_reader_unsupported(reader, "tools",
                                      "this model's chat template has no place for tools; the "
                                      "server can be given one that has (--chat-template).");
    out->tools = tools;
    return true;
}

/* *out: the model is to know of the tools. */
static bool read_choice(struct api_reader *reader, bool *out) {
    const struct tree *value = api_reader_given(reader->root, "tool_choice");
    *out = !api_reader_is(value, "none");
    if (!value || !*out || api_reader_is(value, "auto")) return true;
    if (api_reader_is(value, "required") || tree_kind(value) == TREE_OBJECT)
        return api_reader_unsupported(reader, "tool_choice", API_CONSTRAINED);
    return api_error_set(reader->error, 422, "tool_choice", "invalid_value",
                         "'tool_choice' must be none or auto.");
}

bool api_tools_read(struct api_reader *reader, struct api_request *out) {
    const struct tree *tools = api_reader_given(reader->root, "tools");
    bool wanted, parallel = true;
    if (tools && !api_tools_check(reader, tools)) return false;
    if (!read_choice(reader, &wanted) ||
        !api_reader_flag(reader, reader->root, "parallel_tool_calls", &parallel))
        return false;
    out->one_call = !parallel;
    return !wanted || api_tools_give(reader, tools, out);
}
