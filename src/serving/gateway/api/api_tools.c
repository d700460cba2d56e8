/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/api/api_tools.h"

#include "base/format.h"
#include "base/json_writer.h"
#include "serving/gateway/api/api_values.h"
#include "serving/gateway/api/dialect.h"
#include "serving/text/tool_writer.h"

/* ---- tools ---- */

static struct bytes api_tools_name_of(const struct tree *tool) {
    struct bytes name = {"", 0};
    (void)tree_get_string(tree_member(tree_member(tool, "function"), "name"), &name);
    return name;
}

/* The path of a tool, or of a member of it: "tools[2].function.name" in a chat, else
 * "tools[2].name", unless the reader has a better one. */
static struct api_place api_tools_place_of(const struct api_reader *reader, size_t index,
                                           const char *member) {
    enum dialect_number number = reader->dialect->number;
    bool nests = number == DIALECT_CHAT || number == DIALECT_OLLAMA_CHAT;
    bool inside = nests && !reader->tool_places;
    struct api_place place =
        reader->tool_places ? reader->tool_places[index] : api_reader_place_of("tools", index, "");
    size_t count = strlen(place.text);
    format_text(place.text + count, sizeof place.text - count, "%s%s%s", inside ? ".function" : "",
                *member ? "." : "", member);
    return place;
}

static const char *api_tools_parameters_of(const struct api_reader *reader) {
    return reader->dialect->number == DIALECT_ANTHROPIC ? "input_schema" : "parameters";
}

static bool check_function(struct api_reader *reader, const struct tree *function, size_t index) {
    struct api_place place = api_tools_place_of(reader, index, "");
    if (!function) return api_reader_missing(reader, place.text);
    if (tree_kind(function) != TREE_OBJECT)
        return api_reader_wrong_type(reader, place.text, "an object", function);
    struct bytes text;
    place = api_tools_place_of(reader, index, "name");
    if (!tree_get_string(tree_member(function, "name"), &text) ||
        !api_values_is_name(text, LIMIT_TOOL_NAME))
        return api_error_set(reader->error, 400, place.text, "invalid_value",
                             "'%s' must be a name of letters, digits, '_' and '-', at most %d.",
                             place.text, LIMIT_TOOL_NAME);
    place = api_tools_place_of(reader, index, "description");
    const struct tree *value = api_reader_given(function, "description");
    if (value && !tree_get_string(value, &text))
        return api_reader_wrong_type(reader, place.text, "a string", value);
    place = api_tools_place_of(reader, index, api_tools_parameters_of(reader));
    value = api_reader_given(function, "parameters");
    if (value && tree_kind(value) != TREE_OBJECT)
        return api_reader_wrong_type(reader, place.text, "an object", value);
    place = api_tools_place_of(reader, index, "strict");
    bool strict;
    value = api_reader_given(function, "strict");
    return !value || tree_get_bool(value, &strict) ||
           api_reader_wrong_type(reader, place.text, "a boolean", value);
}

static bool check_tool(struct api_reader *reader, const struct tree *tools, size_t index) {
    struct api_place place = api_reader_place_of("tools", index, "");
    const struct tree *tool = tree_at(tools, index);
    if (tree_kind(tool) != TREE_OBJECT)
        return api_reader_wrong_type(reader, place.text, "an object", tool);
    place = api_reader_place_of("tools", index, ".type");
    if (!api_reader_is(tree_member(tool, "type"), "function"))
        return api_reader_unsupported(reader, place.text, "only 'function' is supported.");
    if (!check_function(reader, api_reader_given(tool, "function"), index)) return false;
    place = api_tools_place_of(reader, index, "name");
    for (size_t i = 0; i < index; i++)
        if (bytes_equal(api_tools_name_of(tree_at(tools, i)), api_tools_name_of(tool)))
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

/* ---- the choice ---- */

bool api_tools_name(struct api_reader *reader, const char *place, const struct tree *tools,
                    const struct tree *name, struct api_tool_choice *choice) {
    struct bytes text;
    choice->limited = true;
    if (!name || !tree_get_string(name, &text))
        return api_reader_needs(reader, place, "the name of a tool");
    for (size_t i = 0; i < tree_count(tools); i++)
        if (bytes_equal(api_tools_name_of(tree_at(tools, i)), text)) {
            choice->named[i] = true;
            return true;
        }
    return api_error_set(reader->error, 400, place, "invalid_value",
                         "'%s' names the tool '%.*s', which is not among 'tools'.", place,
                         text.count < 64 ? (int)text.count : 64, text.data);
}

/* Returns the object with names and lists: a nested member in chats, the object itself in
 * Responses. */
static const struct tree *inner(const struct tree *object, const char *member) {
    const struct tree *value = api_reader_given(object, member);
    return value ? value : object;
}

/* True for a choice that names a function or a custom tool. */
static bool names_tool(const struct tree *choice) {
    return api_reader_is_type(choice, "function") || api_reader_is_type(choice, "custom");
}

static const struct tree *named_tool(const struct tree *choice) {
    const char *member = api_reader_is_type(choice, "custom") ? "custom" : "function";
    return tree_member(inner(choice, member), "name");
}

/* Reads {"mode": "auto" or "required", "tools": [{"type": "function", ...}, ...]}. */
static bool read_allowed(struct api_reader *reader, const char *place, const struct tree *allowed,
                         const struct tree *tools, struct api_tool_choice *choice) {
    const struct tree *mode = tree_member(allowed, "mode"), *list = tree_member(allowed, "tools");
    choice->forced = api_reader_is(mode, "required");
    if (!choice->forced && !api_reader_is(mode, "auto"))
        return api_reader_needs(reader, place, "a 'mode': 'auto' or 'required'");
    if (tree_count(list) == 0) return api_reader_needs(reader, place, "an array 'tools'");
    for (size_t i = 0; i < tree_count(list); i++) {
        const struct tree *one = tree_at(list, i);
        if (!names_tool(one)) return api_reader_refuse_type(reader, place, one);
        if (!api_tools_name(reader, place, tools, named_tool(one), choice)) return false;
    }
    return true;
}

/* Reads the body's 'tool_choice' in OpenAI's format, and 'parallel_tool_calls', which is stored in
 * *out. */
static bool api_tools_read_choice(struct api_reader *reader, const struct tree *tools,
                                  struct api_tool_choice *choice_out, struct api_request *out) {
    static const char place[] = "tool_choice";
    struct api_tool_choice *choice = choice_out;
    const struct tree *value = api_reader_given(reader->root, place);
    bool parallel = true;
    *choice = (struct api_tool_choice){.none = api_reader_is(value, "none"),
                                       .forced = api_reader_is(value, "required")};
    if (!api_reader_flag(reader, reader->root, "parallel_tool_calls", &parallel)) return false;
    out->one_call = choice->single = !parallel;
    if (!value || choice->none || choice->forced || api_reader_is(value, "auto")) return true;
    if (api_reader_is_type(value, "allowed_tools"))
        return read_allowed(reader, place, inner(value, "allowed_tools"), tools, choice);
    if (names_tool(value)) {
        choice->forced = choice->single = true;
        return api_tools_name(reader, place, tools, named_tool(value), choice);
    }
    if (tree_kind(value) == TREE_OBJECT) return api_reader_refuse_type(reader, place, value);
    return api_error_set(reader->error, 422, place, "invalid_value",
                         "'tool_choice' must be none, auto, required or a function.");
}

/* ---- constraints of calls ---- */

/* Returns the first strict tool that may be called, or the count of tools if there is none. */
static size_t find_strict(const struct tree *tools, const struct api_tool_choice *choice) {
    size_t i = 0;
    while (i < tree_count(tools) &&
           ((choice->limited && !choice->named[i]) || !tool_writer_is_strict(tree_at(tools, i))))
        i++;
    return i;
}

/* Refuses optional constrained calls for a model if the start of its calls cannot be recognized in
 * its text. */
static bool refuse_free(struct api_reader *reader, size_t strict, bool limited) {
    static const char why[] =
        "this model's calls begin like any text; with 'tool_choice' required it can be held.";
    struct api_place place = {"tool_choice"};
    if (!limited) place = api_tools_place_of(reader, strict, "strict");
    return api_reader_unsupported(reader, place.text, why);
}

/* Checks that the model's format of calls can enforce each schema that must be enforced. */
static bool check_held(struct api_reader *reader, const struct tool_wish *wish) {
    for (size_t i = 0; i < tree_count(wish->tools); i++) {
        const struct tree *tool = tree_at(wish->tools, i);
        bool held = wish->holds_all || tool_writer_is_strict(tool);
        if ((wish->named && !wish->named[i]) || !held || tool_writer_holds(wish->format, tool))
            continue;
        struct api_place place = {"tool_choice"};
        if (tool_writer_is_strict(tool)) place = api_tools_place_of(reader, i, "strict");
        return api_error_set(reader->error, 400, place.text, "unsupported_parameter",
                             "'%s': this model writes no JSON in its calls, and so '%s' cannot be "
                             "held.",
                             place.text,
                             api_tools_place_of(reader, i, api_tools_parameters_of(reader)).text);
    }
    return true;
}

/* Allows these calls as an alternative to the answer's earlier constraint. */
static bool api_tools_add_calls(struct api_reader *reader, struct bytes calls,
                                struct api_request *out) {
    struct bytes content = out->constraint.form;
    size_t room = content.count + calls.count + sizeof "{'any':[,]}";
    struct json_writer writer = {.out = arena_take(reader->arena, room), .room = room};
    if (!writer.out) return api_reader_no_memory(reader);
    json_writer_text(&writer, "{\"any\":[");
    json_writer_bytes(&writer, content);
    json_writer_text(&writer, ",");
    json_writer_bytes(&writer, calls);
    json_writer_text(&writer, "]}");
    out->constraint.form = (struct bytes){writer.out, writer.count};
    return true;
}

static bool bind_calls(struct api_reader *reader, const struct tree *tools,
                       const struct api_tool_choice *choice, struct api_request *out) {
    size_t strict = find_strict(tools, choice);
    bool bound = out->constraint.field != NULL;
    struct bytes mark = {"", 0};
    struct tool_wish wish = {.format = reader->defaults->calls,
                             .tokenizer = reader->defaults->tokenizer,
                             .tools = tools,
                             .named = choice->limited ? choice->named : NULL,
                             .single = choice->single,
                             .holds_all = choice->forced,
                             .in_order = out->strict_order,
                             .from_mark = !choice->forced && !bound};
    if (!choice->forced && !bound && !choice->limited && strict == tree_count(tools)) return true;
    if (wish.from_mark && !tool_writer_mark(wish.format, wish.tokenizer, &mark))
        return refuse_free(reader, strict, choice->limited);
    if (!check_held(reader, &wish)) return false;
    const struct tree *form = tool_writer_form(reader->arena, &wish);
    struct bytes text = form ? tree_text(reader->arena, form) : (struct bytes){NULL, 0};
    if (!text.data) return api_reader_no_memory(reader);
    if (bound && !choice->forced) return api_tools_add_calls(reader, text, out);
    bool by_choice = choice->forced || choice->limited;
    out->constraint = (struct api_constraint){
        .form = text, .at = mark, .field = by_choice ? "tool_choice" : "tools"};
    return true;
}

bool api_tools_give(struct api_reader *reader, const struct tree *tools,
                    const struct api_tool_choice *choice, struct api_request *out) {
    if (choice->none) return true;
    if (choice->forced && tree_count(tools) == 0)
        return api_error_set(reader->error, 400, "tool_choice", "invalid_value",
                             "'tool_choice' asks for a call, and there are no 'tools'.");
    if (tree_count(tools) == 0) return true;
    if (!reader->defaults->prints_tools)
        return api_reader_unsupported(reader, "tools",
                                      "this model's chat template has no place for tools; the "
                                      "server can be given one that has (--chat-template).");
    out->tools = tools;
    return bind_calls(reader, tools, choice, out);
}

bool api_tools_read(struct api_reader *reader, const struct tree *tools, struct api_request *out) {
    struct api_tool_choice choice;
    return (!tools || api_tools_check(reader, tools)) &&
           api_tools_read_choice(reader, tools, &choice, out) &&
           api_tools_give(reader, tools, &choice, out);
}
