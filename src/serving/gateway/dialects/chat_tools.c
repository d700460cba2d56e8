/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/chat_tools.h"

#include "base/format.h"
#include "serving/gateway/api/api_tools.h"
#include "serving/gateway/dialects/text_tool.h"

static bool is_custom(const struct tree *tool) {
    return api_reader_is_type(tool, "custom") && api_reader_given(tool, "custom");
}

static bool any_custom(const struct tree *list) {
    for (size_t i = 0; i < tree_count(list); i++)
        if (is_custom(tree_at(list, i))) return true;
    return false;
}

/* ---- tools ---- */

static bool chat_tools_add_tool(struct api_reader *reader, struct chat_builder *builder,
                                struct api_request *out, const struct tree *tool,
                                struct api_place place) {
    if (!is_custom(tool))
        return tree_append(reader->arena, builder->tools, tool) || api_reader_no_memory(reader);
    const struct tree *custom = api_reader_given(tool, "custom");
    return text_tool_add(reader, builder, out, custom, api_reader_given(custom, "name"),
                         place.text);
}

bool chat_tools_read(struct api_reader *reader, struct api_request *out) {
    const struct tree *list = api_reader_given(reader->root, "tools");
    size_t count = tree_count(list);
    if (!any_custom(list) || count > LIMIT_TOOLS) return api_tools_read(reader, list, out);
    struct chat_builder builder = chat_builder_open(reader->arena);
    struct api_place *places = arena_take(reader->arena, count * sizeof *places);
    struct tool_alias *aliases = arena_take(reader->arena, count * sizeof *aliases);
    size_t alias_count = 0;
    if (builder.failed || !places || !aliases) return api_reader_no_memory(reader);
    for (size_t i = 0; i < count; i++) {
        const struct tree *tool = tree_at(list, i);
        struct tool_alias alias = {.namespace = {"", 0}, .takes_text = true};
        places[i] = api_reader_place_of("tools", i, is_custom(tool) ? ".custom" : ".function");
        if (!chat_tools_add_tool(reader, &builder, out, tool, places[i])) return false;
        if (!is_custom(tool) ||
            !tree_get_string(tree_member(tree_member(tool, "custom"), "name"), &alias.own))
            continue;
        alias.name = alias.own;
        aliases[alias_count++] = alias;
    }
    if (!chat_builder_end(&builder)) return api_reader_no_memory(reader);
    out->aliases = (struct tool_aliases){aliases, alias_count};
    reader->tool_places = places;
    return api_tools_read(reader, builder.tools, out);
}

/* ---- earlier calls ---- */

/* Converts a call of a custom tool to a function call. Returns other calls unchanged. NULL: no
 * memory. */
static const struct tree *function_call(struct api_reader *reader, const struct tree *call) {
    const struct tree *custom = api_reader_given(call, "custom");
    const struct tree *input = api_reader_string(custom, "input");
    const struct tree *name = api_reader_given(custom, "name"), *id = api_reader_given(call, "id");
    if (!is_custom(call) || !input) return call;
    struct arena *arena = reader->arena;
    struct tree *made = tree_make_object(arena), *function = tree_make_object(arena);
    const struct tree *type = tree_make_string(arena, BYTES_LITERAL("function"));
    const struct tree *arguments = text_tool_arguments(reader, input);
    if (!made || !function || !type || !arguments) return NULL;
    bool done = (!id || tree_set(arena, made, "id", id)) && tree_set(arena, made, "type", type) &&
                (!name || tree_set(arena, function, "name", name)) &&
                tree_set(arena, function, "arguments", arguments) &&
                tree_set(arena, made, "function", function);
    return done ? made : NULL;
}

static const struct tree *function_calls(struct api_reader *reader, const struct tree *calls) {
    struct tree *made = tree_make_array(reader->arena);
    for (size_t i = 0; made && i < tree_count(calls); i++) {
        const struct tree *call = function_call(reader, tree_at(calls, i));
        if (!call || !tree_append(reader->arena, made, call)) return NULL;
    }
    return made;
}

bool chat_tools_messages(struct api_reader *reader, const struct tree *messages,
                         const struct tree **out) {
    *out = messages;
    bool any = false;
    for (size_t i = 0; !any && i < tree_count(messages); i++)
        any = any_custom(tree_member(tree_at(messages, i), "tool_calls"));
    if (!any) return true;
    struct tree *made = tree_make_array(reader->arena);
    if (!made) return api_reader_no_memory(reader);
    for (size_t i = 0; i < tree_count(messages); i++) {
        const struct tree *message = tree_at(messages, i);
        const struct tree *calls = tree_member(message, "tool_calls");
        if (any_custom(calls))
            message = chat_builder_with(reader->arena, message, "tool_calls",
                                        function_calls(reader, calls));
        if (!message || !tree_append(reader->arena, made, message))
            return api_reader_no_memory(reader);
    }
    *out = made;
    return true;
}
