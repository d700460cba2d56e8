/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/responses_tools.h"

#include "base/check.h"
#include "base/format.h"
#include "serving/gateway/api/api_body.h"
#include "serving/gateway/api/api_tools.h"

struct tools {
    struct api_reader *reader;
    struct chat_builder *builder;
    struct api_request *out;
    struct tree *given;         /* those of the body that are not left out */
    struct api_place *places;   /* [LIMIT_TOOLS], of the functions */
    struct tool_alias *aliases; /* [LIMIT_TOOLS] */
    size_t count, alias_count;  /* functions so far, and those that have an alias */
};

/* ---- names ---- */

/* NAMESPACE__NAME, or NAMESPACE_NAME where the former ends with '_'. NULL: no memory. */
static const struct tree *join(struct arena *arena, struct bytes namespace, struct bytes name) {
    bool ends = namespace.count && namespace.data[namespace.count - 1] == '_';
    size_t room = namespace.count + name.count + 3;
    char *joined = arena_take(arena, room);
    if (!joined) return NULL;
    size_t count = format_text(joined, room, "%.*s%s%.*s", (int)namespace.count, namespace.data,
                               ends ? "" : "__", (int)name.count, name.data);
    return tree_make_string(arena, (struct bytes){joined, count});
}

const struct tree *responses_tools_name(struct api_reader *reader, const struct tree *call) {
    const struct tree *name = api_reader_string(call, "name");
    struct bytes text, namespace;
    if (!tree_get_string(name, &text) ||
        !tree_get_string(tree_member(call, "namespace"), &namespace) || namespace.count == 0)
        return name;
    return join(reader->arena, namespace, text);
}

const struct tree *responses_tools_arguments(struct api_reader *reader, const struct tree *input) {
    struct tree *object = tree_make_object(reader->arena);
    if (!object || !tree_set(reader->arena, object, "input", input)) return NULL;
    struct bytes text = tree_text(reader->arena, object);
    return text.data ? tree_make_string(reader->arena, text) : NULL;
}

/* ---- tools that take text ---- */

static const char text_parameters[] =
    "{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},"
    "\"required\":[\"input\"],\"additionalProperties\":false}";

/* The description, and behind it the grammar; the description alone where there is none. */
static bool describe(struct tools *tools, const struct tree *tool, const char *place,
                     const struct tree **out) {
    struct api_reader *reader = tools->reader;
    const struct tree *format = api_reader_given(tool, "format");
    struct bytes said = {"", 0}, syntax, grammar;
    *out = api_reader_given(tool, "description");
    if (!format || api_reader_is_type(format, "text")) return true;
    struct api_place member;
    format_text(member.text, sizeof member.text, "%s.format", place);
    if (!api_reader_is_type(format, "grammar"))
        return api_reader_refuse_type(reader, member.text, format);
    if (!tree_get_string(tree_member(format, "syntax"), &syntax) ||
        !tree_get_string(tree_member(format, "definition"), &grammar))
        return api_reader_needs(reader, member.text, "strings 'syntax' and 'definition'");
    if (*out && !tree_get_string(*out, &said)) return true; /* refused with the other members */
    static const char lead[] = "The input follows this grammar";
    size_t room = said.count + syntax.count + grammar.count + sizeof lead + 16;
    char *text = arena_take(reader->arena, room);
    if (!text) return api_reader_no_memory(reader);
    size_t count = format_text(text, room, "%.*s%s%s (%.*s):\n", (int)said.count, said.data,
                               said.count ? "\n\n" : "", lead, (int)syntax.count, syntax.data);
    memcpy(text + count, grammar.data, grammar.count);
    *out = tree_make_string(reader->arena, (struct bytes){text, count + grammar.count});
    if (!*out) return api_reader_no_memory(reader);
    return api_body_warn(reader, tools->out, member.text, "is told to the model, not held");
}

static bool add_text_tool(struct tools *tools, const struct tree *tool, const struct tree *name,
                          const char *place) {
    struct api_reader *reader = tools->reader;
    const struct tree *description, *parameters;
    struct error ignored;
    if (!describe(tools, tool, place, &description)) return false;
    if (tree_parse(reader->arena, bytes_of(text_parameters), "parameters", &parameters, &ignored))
        return api_reader_no_memory(reader);
    chat_builder_tool(tools->builder, name, description, parameters, NULL);
    return true;
}

/* ---- all tools ---- */

static bool add_alias(struct tools *tools, struct tool_alias alias) {
    struct arena *arena = tools->reader->arena;
    if (!tools->aliases) tools->aliases = arena_take(arena, LIMIT_TOOLS * sizeof *tools->aliases);
    if (!tools->aliases) return api_reader_no_memory(tools->reader);
    if (tools->alias_count < LIMIT_TOOLS) tools->aliases[tools->alias_count++] = alias;
    return true;
}

/* `namespace`: empty: none. What is wrong with its members api_tools_check says. */
static bool add_tool(struct tools *tools, const struct tree *tool, struct bytes namespace,
                     const struct api_place *place) {
    struct api_reader *reader = tools->reader;
    const struct tree *name = api_reader_given(tool, "name");
    struct tool_alias alias = {.namespace = namespace,
                               .takes_text = api_reader_is_type(tool, "custom")};
    if (!alias.takes_text && !api_reader_is_type(tool, "function"))
        return api_reader_refuse_type(reader, place->text, tool);
    bool named = tree_get_string(name, &alias.own);
    if (named && namespace.count) name = join(reader->arena, namespace, alias.own);
    if (named && !tree_get_string(name, &alias.name)) return api_reader_no_memory(reader);
    if (tools->count < LIMIT_TOOLS) tools->places[tools->count++] = *place;
    if (named && (namespace.count || alias.takes_text) && !add_alias(tools, alias)) return false;
    if (alias.takes_text) return add_text_tool(tools, tool, name, place->text);
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
        if (!add_tool(tools, tree_at(inner, i), namespace, &at)) return false;
    }
    return true;
}

static bool is_left_out(const struct tree *tool) {
    static const char *const types[] = {"web_search", "web_search_2025_08_26", "web_search_preview",
                                        "web_search_preview_2025_03_11", "image_generation"};
    for (size_t i = 0; i < ARRAY_COUNT(types); i++)
        if (api_reader_is_type(tool, types[i])) return true;
    return false;
}

static bool read_tool(struct tools *tools, const struct tree *tool, size_t index) {
    struct api_reader *reader = tools->reader;
    struct api_place place = api_place_of("tools", index, "");
    if (is_left_out(tool))
        return api_body_warn(reader, tools->out, place.text, "is left out: no tools are run here");
    if (!tree_append(reader->arena, tools->given, tool)) return api_reader_no_memory(reader);
    if (api_reader_is_type(tool, "namespace")) return add_namespace(tools, tool, &place);
    return add_tool(tools, tool, (struct bytes){"", 0}, &place);
}

static bool read_tools(struct tools *tools) {
    struct api_reader *reader = tools->reader;
    const struct tree *list = api_reader_given(reader->root, "tools");
    if (!list) return true;
    if (tree_kind(list) != TREE_ARRAY)
        return api_reader_wrong_type(reader, "tools", "an array", list);
    tools->given = tree_make_array(reader->arena);
    tools->places = arena_take(reader->arena, LIMIT_TOOLS * sizeof *tools->places);
    if (!tools->given || !tools->places) return api_reader_no_memory(reader);
    for (size_t i = 0; i < tree_count(list); i++)
        if (!read_tool(tools, tree_at(list, i), i)) return false;
    return true;
}

bool responses_tools_read(struct api_reader *reader, struct chat_builder *builder,
                          struct api_request *out, const struct tree **given_out) {
    struct tools tools = {.reader = reader, .builder = builder, .out = out};
    struct api_tool_choice choice;
    if (!read_tools(&tools)) return false;
    if (!chat_builder_end(builder)) return api_reader_no_memory(reader);
    out->aliases = (struct tool_aliases){tools.aliases, tools.alias_count};
    reader->tool_places = tools.places;
    *given_out = tools.given;
    return api_tools_check(reader, builder->tools) &&
           api_tools_read_choice(reader, builder->tools, &choice, out) &&
           api_tools_give(reader, builder->tools, &choice, out);
}
