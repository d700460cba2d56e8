/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/responses_tools.h"

#include "base/check.h"
#include "base/format.h"
#include "serving/gateway/api/api_body.h"
#include "serving/gateway/api/api_tools.h"
#include "serving/gateway/dialects/text_tool.h"

struct tools {
    struct api_reader *reader;
    struct chat_builder *builder;
    struct api_request *out;
    struct tree *given;         /* the body's tools, without those left out */
    struct api_place *places;   /* [LIMIT_TOOLS] paths of the functions in the body */
    struct tool_alias *aliases; /* [LIMIT_TOOLS] */
    size_t count, alias_count;  /* functions so far, and those with an alias */
};

/* ---- names ---- */

/* Returns NAMESPACE__NAME, or NAMESPACE_NAME if the namespace ends with '_'. Keeps all bytes, so
 * that an invalid name (with a NUL) is detected. NULL: no memory. */
static const struct tree *responses_tools_join(struct arena *arena, struct bytes namespace,
                                               struct bytes name) {
    bool ends = namespace.count && namespace.data[namespace.count - 1] == '_';
    size_t between = ends ? 0 : 2;
    char *joined = arena_take(arena, namespace.count + between + name.count + 1);
    if (!joined) return NULL;
    memcpy(joined, namespace.data, namespace.count);
    memcpy(joined + namespace.count, "__", between);
    memcpy(joined + namespace.count + between, name.data, name.count);
    return tree_make_string(arena, (struct bytes){joined, namespace.count + between + name.count});
}

const struct tree *responses_tools_name(struct api_reader *reader, const struct tree *call) {
    const struct tree *name = api_reader_string(call, "name");
    struct bytes text, namespace;
    if (!tree_get_string(name, &text) ||
        !tree_get_string(tree_member(call, "namespace"), &namespace) || namespace.count == 0)
        return name;
    return responses_tools_join(reader->arena, namespace, text);
}

/* ---- all tools ---- */

static bool responses_tools_add_alias(struct tools *tools, struct tool_alias alias) {
    struct arena *arena = tools->reader->arena;
    if (!tools->aliases) tools->aliases = arena_take(arena, LIMIT_TOOLS * sizeof *tools->aliases);
    if (!tools->aliases) return api_reader_no_memory(tools->reader);
    if (tools->alias_count < LIMIT_TOOLS) tools->aliases[tools->alias_count++] = alias;
    return true;
}

/* Adds a tool. `namespace` may be empty. api_tools_check reports errors in the tool's members. */
static bool responses_tools_add_tool(struct tools *tools, const struct tree *tool,
                                     struct bytes namespace, const struct api_place *place) {
    struct api_reader *reader = tools->reader;
    const struct tree *name = api_reader_given(tool, "name");
    struct tool_alias alias = {.namespace = namespace,
                               .takes_text = api_reader_is_type(tool, "custom")};
    if (!alias.takes_text && !api_reader_is_type(tool, "function"))
        return api_reader_refuse_type(reader, place->text, tool);
    bool named = tree_get_string(name, &alias.own);
    if (named && namespace.count) name = responses_tools_join(reader->arena, namespace, alias.own);
    if (named && !tree_get_string(name, &alias.name)) return api_reader_no_memory(reader);
    if (tools->count < LIMIT_TOOLS) tools->places[tools->count++] = *place;
    if (named && (namespace.count || alias.takes_text) && !responses_tools_add_alias(tools, alias))
        return false;
    if (alias.takes_text)
        return text_tool_add(reader, tools->builder, tools->out, tool, name, place->text);
    chat_builder_tool(tools->builder, name, api_reader_given(tool, "description"),
                      api_reader_given(tool, "parameters"), api_reader_given(tool, "strict"));
    return true;
}

static bool add_namespace(struct tools *tools, const struct tree *tool,
                          const struct api_place *place) {
    struct api_reader *reader = tools->reader;
    const struct tree *inner = tree_member(tool, "tools");
    struct bytes namespace;
    if (!tree_get_string(tree_member(tool, "name"), &namespace) || namespace.count == 0 || !inner ||
        tree_kind(inner) != TREE_ARRAY)
        return api_reader_needs(reader, place->text, "a string 'name' and an array 'tools'");
    for (size_t i = 0; i < tree_count(inner); i++) {
        struct api_place at;
        format_text(at.text, sizeof at.text, "%s.tools[%zu]", place->text, i);
        if (!responses_tools_add_tool(tools, tree_at(inner, i), namespace, &at)) return false;
    }
    return true;
}

static bool responses_tools_is_left_out(const struct tree *tool) {
    static const char *const types[] = {"web_search", "web_search_2025_08_26", "web_search_preview",
                                        "web_search_preview_2025_03_11", "image_generation"};
    for (size_t i = 0; i < ARRAY_COUNT(types); i++)
        if (api_reader_is_type(tool, types[i])) return true;
    return false;
}

static bool responses_tools_read_tool(struct tools *tools, const struct tree *tool, size_t index) {
    struct api_reader *reader = tools->reader;
    struct api_place place = api_reader_place_of("tools", index, "");
    if (responses_tools_is_left_out(tool))
        return api_body_warn(reader, tools->out, place.text, "is left out: no tools are run here");
    if (!tree_append(reader->arena, tools->given, tool)) return api_reader_no_memory(reader);
    if (api_reader_is_type(tool, "namespace")) return add_namespace(tools, tool, &place);
    return responses_tools_add_tool(tools, tool, (struct bytes){"", 0}, &place);
}

static bool responses_tools_read_tools(struct tools *tools) {
    struct api_reader *reader = tools->reader;
    const struct tree *list = api_reader_given(reader->root, "tools");
    if (!list) return true;
    if (tree_kind(list) != TREE_ARRAY)
        return api_reader_wrong_type(reader, "tools", "an array", list);
    tools->given = tree_make_array(reader->arena);
    tools->places = arena_take(reader->arena, LIMIT_TOOLS * sizeof *tools->places);
    if (!tools->given || !tools->places) return api_reader_no_memory(reader);
    for (size_t i = 0; i < tree_count(list); i++)
        if (!responses_tools_read_tool(tools, tree_at(list, i), i)) return false;
    return true;
}

bool responses_tools_read(struct api_reader *reader, struct chat_builder *builder,
                          struct api_request *out, const struct tree **given_out) {
    struct tools tools = {.reader = reader, .builder = builder, .out = out};
    if (!responses_tools_read_tools(&tools)) return false;
    if (!chat_builder_end(builder)) return api_reader_no_memory(reader);
    out->aliases = (struct tool_aliases){tools.aliases, tools.alias_count};
    reader->tool_places = tools.places;
    *given_out = tools.given;
    return api_tools_read(reader, builder->tools, out);
}
