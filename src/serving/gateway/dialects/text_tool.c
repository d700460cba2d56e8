/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/text_tool.h"

#include "base/format.h"
#include "serving/gateway/api/api_body.h"

static const char text_parameters[] =
    "{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},"
    "\"required\":[\"input\"],\"additionalProperties\":false}";

/* Builds the description, followed by the grammar if there is one. Chats have the grammar in a
 * nested member, unlike Responses. */
static bool text_tool_describe(struct api_reader *reader, struct api_request *request,
                               const struct tree *tool, const char *place,
                               const struct tree **out) {
    const struct tree *format = api_reader_given(tool, "format");
    struct bytes said = {"", 0}, syntax, definition;
    *out = api_reader_given(tool, "description");
    if (!format || api_reader_is_type(format, "text")) return true;
    struct api_place member;
    format_text(member.text, sizeof member.text, "%s.format", place);
    if (!api_reader_is_type(format, "grammar"))
        return api_reader_refuse_type(reader, member.text, format);
    const struct tree *inner = api_reader_given(format, "grammar"),
                      *grammar = inner ? inner : format;
    if (!tree_get_string(tree_member(grammar, "syntax"), &syntax) ||
        !tree_get_string(tree_member(grammar, "definition"), &definition))
        return api_reader_needs(reader, member.text, "strings 'syntax' and 'definition'");
    if (*out && !tree_get_string(*out, &said)) return true; /* api_tools_check refuses it */
    static const char lead[] = "The input follows this grammar";
    size_t room = said.count + syntax.count + definition.count + sizeof lead + 16;
    char *text = arena_take(reader->arena, room);
    if (!text) return api_reader_no_memory(reader);
    size_t count = format_text(text, room, "%.*s%s%s (%.*s):\n", (int)said.count, said.data,
                               said.count ? "\n\n" : "", lead, (int)syntax.count, syntax.data);
    memcpy(text + count, definition.data, definition.count);
    *out = tree_make_string(reader->arena, (struct bytes){text, count + definition.count});
    if (!*out) return api_reader_no_memory(reader);
    return api_body_warn(reader, request, member.text, "is shown to the model, not enforced");
}

bool text_tool_add(struct api_reader *reader, struct chat_builder *builder, struct api_request *out,
                   const struct tree *tool, const struct tree *name, const char *place) {
    const struct tree *description, *parameters;
    struct error ignored;
    if (!text_tool_describe(reader, out, tool, place, &description)) return false;
    if (tree_parse(reader->arena, bytes_of(text_parameters), "parameters", &parameters, &ignored))
        return api_reader_no_memory(reader);
    chat_builder_tool(builder, name, description, parameters, NULL);
    return true;
}

const struct tree *text_tool_arguments(struct api_reader *reader, const struct tree *input) {
    struct tree *object = tree_make_object(reader->arena);
    if (!object || !tree_set(reader->arena, object, "input", input)) return NULL;
    struct bytes text = tree_text(reader->arena, object);
    return text.data ? tree_make_string(reader->arena, text) : NULL;
}
