/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/responses_reader.h"

#include "base/check.h"
#include "base/format.h"
#include "base/json_writer.h"
#include "serving/gateway/api/api_constraint.h"
#include "serving/gateway/api/api_thinking.h"
#include "serving/gateway/api/api_tools.h"
#include "serving/gateway/dialects/responses_tools.h"
#include "serving/gateway/dialects/text_tool.h"

struct items {
    struct api_reader *reader;
    struct chat_builder builder;
    const struct tree *tools; /* the body's tools that the model sees; NULL: none */
};

/* ---- content ---- */

/* Returns the member that has the text of a part of this type; NULL: it has none. */
static const char *responses_reader_text_member(const struct tree *part) {
    static const char *const types[] = {"input_text", "output_text", "text"};
    for (size_t i = 0; i < ARRAY_COUNT(types); i++)
        if (api_reader_is_type(part, types[i])) return "text";
    return api_reader_is_type(part, "refusal") ? "refusal" : NULL;
}

/* Appends the text of each part of `value`, which is an array, to `parts`. */
static bool responses_reader_read_parts(struct items *talk, const char *place,
                                        const struct tree *value, struct tree *parts) {
    for (size_t i = 0; i < tree_count(value); i++) {
        const struct tree *part = tree_at(value, i);
        const char *member = responses_reader_text_member(part);
        if (!member) return api_reader_refuse_type(talk->reader, place, part);
        const struct tree *text = api_reader_string(part, member);
        if (!text)
            return api_reader_needs(talk->reader, place, "parts with a string 'text' or 'refusal'");
        if (!tree_append(talk->reader->arena, parts, chat_builder_part(&talk->builder, text)))
            return api_reader_no_memory(talk->reader);
    }
    return true;
}

/* Reads the content of a message. *out is a string or an array of text parts. */
static bool read_content(struct items *talk, const char *place, const struct tree *value,
                         const struct tree **out) {
    struct api_reader *reader = talk->reader;
    struct bytes text;
    *out = value;
    if (!value) return api_reader_missing(reader, place);
    if (tree_get_string(value, &text)) return true;
    if (tree_kind(value) != TREE_ARRAY)
        return api_reader_wrong_type(reader, place, "a string or an array of parts", value);
    struct tree *parts = tree_make_array(reader->arena);
    if (!parts) return api_reader_no_memory(reader);
    *out = parts;
    return responses_reader_read_parts(talk, place, value, parts);
}

/* ---- items ---- */

static bool responses_reader_read_message(struct items *talk, const struct tree *item,
                                          size_t index) {
    struct api_reader *reader = talk->reader;
    const struct tree *role = tree_member(item, "role"), *content;
    struct api_place place = api_reader_place_of("input", index, ".content");
    if (!read_content(talk, place.text, api_reader_given(item, "content"), &content)) return false;
    if (api_reader_is(role, "assistant")) {
        /* A second consecutive assistant message begins a new turn. */
        if (talk->builder.parts || talk->builder.calls) chat_builder_end_turn(&talk->builder);
        if (tree_kind(content) != TREE_ARRAY) chat_builder_say(&talk->builder, content);
        for (size_t i = 0; i < tree_count(content); i++)
            chat_builder_say(&talk->builder, tree_member(tree_at(content, i), "text"));
        return true;
    }
    static const char *const roles[] = {"user", "system", "developer"};
    for (size_t i = 0; i < ARRAY_COUNT(roles); i++)
        if (api_reader_is(role, roles[i])) {
            chat_builder_message(&talk->builder, roles[i], content);
            return true;
        }
    place = api_reader_place_of("input", index, ".role");
    return api_error_set(reader->error, 400, place.text, "invalid_value",
                         "'%s' must be 'user', 'assistant', 'system' or 'developer'.", place.text);
}

/* Reads reasoning that this server sealed (write_item in responses_words.c). Other servers' sealed
 * reasoning cannot be read. */
static bool read_sealed(struct items *talk, const struct tree *item) {
    struct bytes text, seal = bytes_of(RESPONSES_READER_SEAL);
    if (!tree_get_string(tree_member(item, "encrypted_content"), &text) ||
        !bytes_start_with(text, seal))
        return false;
    struct bytes said = {text.data + seal.count, text.count - seal.count};
    chat_builder_reason(&talk->builder, tree_make_string(talk->reader->arena, said));
    return true;
}

/* Reads reasoning that this server returned, as text or sealed, or another server's summary. */
static bool read_reasoning(struct items *talk, const struct tree *item, size_t index) {
    struct api_place place = api_reader_place_of("input", index, "");
    static const char *const names[] = {"content", "summary"};
    if (talk->builder.parts || talk->builder.calls) chat_builder_end_turn(&talk->builder);
    for (size_t n = 0; n < ARRAY_COUNT(names); n++) {
        const struct tree *parts = api_reader_given(item, names[n]);
        if (n == 1 && read_sealed(talk, item)) break;
        if (parts && tree_kind(parts) != TREE_ARRAY)
            return api_reader_needs(talk->reader, place.text, "arrays 'content' and 'summary'");
        for (size_t i = 0; parts && i < tree_count(parts); i++) {
            const struct tree *text = api_reader_string(tree_at(parts, i), "text");
            if (!text)
                return api_reader_needs(talk->reader, place.text, "parts with a string 'text'");
            chat_builder_reason(&talk->builder, text);
        }
        if (parts && tree_count(parts)) break;
    }
    return true;
}

static bool responses_reader_read_call(struct items *talk, const struct tree *item, size_t index) {
    struct api_place place = api_reader_place_of("input", index, "");
    const struct tree *id = api_reader_string(item, "call_id");
    const struct tree *arguments = api_reader_string(item, "arguments");
    if (!id || !api_reader_string(item, "name") || !arguments)
        return api_reader_needs(talk->reader, place.text,
                                "strings 'call_id', 'name' and 'arguments'");
    chat_builder_call(&talk->builder, id, responses_tools_name(talk->reader, item), arguments);
    return true;
}

static bool read_text_call(struct items *talk, const struct tree *item, size_t index) {
    struct api_place place = api_reader_place_of("input", index, "");
    const struct tree *id = api_reader_string(item, "call_id");
    const struct tree *input = api_reader_string(item, "input");
    if (!id || !api_reader_string(item, "name") || !input)
        return api_reader_needs(talk->reader, place.text, "strings 'call_id', 'name' and 'input'");
    chat_builder_call(&talk->builder, id, responses_tools_name(talk->reader, item),
                      text_tool_arguments(talk->reader, input));
    return true;
}

static bool responses_reader_read_result(struct items *talk, const struct tree *item,
                                         size_t index) {
    struct api_place place = api_reader_place_of("input", index, "");
    const struct tree *id = api_reader_string(item, "call_id"), *content;
    if (!id) return api_reader_needs(talk->reader, place.text, "a string 'call_id'");
    place = api_reader_place_of("input", index, ".output");
    if (!read_content(talk, place.text, api_reader_given(item, "output"), &content)) return false;
    chat_builder_result(&talk->builder, id, content);
    return true;
}

static bool responses_reader_read_item(struct items *talk, const struct tree *item, size_t index) {
    static const struct {
        const char *type;
        bool (*read)(struct items *talk, const struct tree *item, size_t index);
    } kinds[] = {{"message", responses_reader_read_message},
                 {"reasoning", read_reasoning},
                 {"function_call", responses_reader_read_call},
                 {"function_call_output", responses_reader_read_result},
                 {"custom_tool_call", read_text_call},
                 {"custom_tool_call_output", responses_reader_read_result}};
    struct api_place place = api_reader_place_of("input", index, "");
    if (tree_kind(item) == TREE_OBJECT && !api_reader_given(item, "type"))
        return responses_reader_read_message(talk, item, index); /* the short form */
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++)
        if (api_reader_is_type(item, kinds[i].type)) return kinds[i].read(talk, item, index);
    if (api_reader_is_type(item, "item_reference"))
        return api_reader_unsupported(talk->reader, place.text,
                                      "nothing is stored here; send the item itself, as clients "
                                      "do with \"store\": false.");
    return api_reader_refuse_type(talk->reader, place.text, item);
}

static bool read_input(struct items *talk, struct api_request *out) {
    struct api_reader *reader = talk->reader;
    const struct tree *input = api_reader_given(reader->root, "input");
    const struct tree *instructions = api_reader_given(reader->root, "instructions");
    struct bytes text;
    if (!input) return api_reader_missing(reader, "input");
    if (instructions && !tree_get_string(instructions, &text))
        return api_reader_wrong_type(reader, "instructions", "a string", instructions);
    if (instructions && text.count) chat_builder_message(&talk->builder, "system", instructions);
    if (tree_get_string(input, &text)) {
        chat_builder_message(&talk->builder, "user", input);
    } else {
        if (tree_kind(input) != TREE_ARRAY)
            return api_reader_wrong_type(reader, "input", "a string or an array of items", input);
        for (size_t i = 0; i < tree_count(input); i++)
            if (!responses_reader_read_item(talk, tree_at(input, i), i)) return false;
    }
    if (!chat_builder_end(&talk->builder)) return api_reader_no_memory(reader);
    out->messages = talk->builder.messages;
    if (tree_count(out->messages)) return true;
    return api_error_set(reader->error, 400, "input", "invalid_value",
                         "'input' says nothing; send at least one message.");
}

/* ---- objects ---- */

/* Reads a member that is an object. *out is NULL if it is absent. False: it is not an object. */
static bool responses_reader_read_object(struct api_reader *reader, const char *name,
                                         const struct tree **out) {
    *out = api_reader_given(reader->root, name);
    return !*out || tree_kind(*out) == TREE_OBJECT ||
           api_reader_wrong_type(reader, name, "an object", *out);
}

/* "summary" has no effect: the reasoning itself is returned. */
static bool read_reasoning_field(struct api_reader *reader, struct api_request *out) {
    const struct tree *reasoning;
    if (!responses_reader_read_object(reader, "reasoning", &reasoning)) return false;
    struct bytes effort = {"", 0};
    if (reasoning && !api_reader_text(reader, reasoning, "effort", &effort)) return false;
    return effort.count == 0 || api_thinking_ask_effort(reader, "reasoning.effort", effort, out);
}

static bool read_text_field(struct api_reader *reader, struct api_request *out) {
    const struct tree *text, *format, *verbosity;
    if (!responses_reader_read_object(reader, "text", &text)) return false;
    format = api_reader_given(text, "format");
    verbosity = api_reader_given(text, "verbosity");
    if (format && !api_constraint_read_format(reader, "text.format", format, out)) return false;
    return !verbosity || api_reader_is(verbosity, "medium") ||
           api_reader_unsupported(reader, "text.verbosity",
                                  "ask for short or long answers in the instructions.");
}

/* Reads "include". Values other than log probabilities name parts that are always returned, or
 * unsupported tools. */
static bool read_include(struct api_reader *reader, struct api_request *out) {
    const struct tree *include = api_reader_given(reader->root, "include");
    struct bytes name;
    if (include && tree_kind(include) != TREE_ARRAY)
        return api_reader_wrong_type(reader, "include", "an array", include);
    for (size_t i = 0; include && i < tree_count(include); i++) {
        if (!tree_get_string(tree_at(include, i), &name))
            return api_reader_wrong_type(reader, "include", "an array of strings",
                                         tree_at(include, i));
        if (api_reader_is(tree_at(include, i), "message.output_text.logprobs"))
            out->sampling.flags |= SAMPLING_LOGPROBS;
        if (api_reader_is(tree_at(include, i), "reasoning.encrypted_content"))
            out->seals_reasoning = true;
    }
    uint32_t *others = &out->sampling.top_logprobs;
    if (!api_reader_integer(reader, reader->root, "top_logprobs", 0, LIMIT_TOP_LOGPROBS, others))
        return false;
    if (*others) out->sampling.flags |= SAMPLING_LOGPROBS;
    return true;
}

/* ---- fields that answers repeat ---- */

/* Writes "name":value, or "name":absent if `value` is NULL. */
static void repeat_value(struct json_writer *writer, const char *name, const struct tree *value,
                         const char *absent) {
    json_writer_text(writer, "\"");
    json_writer_text(writer, name);
    json_writer_text(writer, "\":");
    if (value)
        tree_write(writer, value);
    else
        json_writer_text(writer, absent);
    json_writer_text(writer, ",");
}

/* Writes the body's member as it is. */
static void repeat(struct json_writer *writer, const struct api_reader *reader, const char *name,
                   const char *absent) {
    repeat_value(writer, name, api_reader_given(reader->root, name), absent);
}

static void repeat_number(struct json_writer *writer, const struct api_reader *reader,
                          const char *name, float usual) {
    char digits[32];
    format_text(digits, sizeof digits, "%g", (double)usual);
    repeat(writer, reader, name, digits);
}

/* Writes members of the response object, each followed by a comma. */
static void responses_reader_write_reported(struct json_writer *writer, const struct items *talk,
                                            bool all) {
    static const struct api_reader nothing = {0};
    const struct api_reader *reader = talk->reader;
    const struct sampling *usual = &reader->defaults->sampling;
    const struct api_reader *large = all ? reader : &nothing;
    repeat(writer, large, "instructions", "null");
    repeat_value(writer, "tools", all ? talk->tools : NULL, "[]");
    repeat(writer, large, "metadata", "{}");
    repeat(writer, large, "text", "{\"format\":{\"type\":\"text\"}}");
    repeat(writer, reader, "tool_choice", "\"auto\"");
    repeat(writer, reader, "parallel_tool_calls", "true");
    repeat(writer, reader, "max_output_tokens", "null");
    repeat_number(writer, reader, "temperature", usual->temperature);
    repeat_number(writer, reader, "top_p", usual->top_p);
    repeat(writer, reader, "top_logprobs", "0");
    json_writer_text(writer, "\"reasoning\":{\"effort\":");
    const struct tree *reasoning = api_reader_given(reader->root, "reasoning");
    const struct tree *effort = reasoning ? api_reader_given(reasoning, "effort") : NULL;
    if (effort)
        tree_write(writer, effort);
    else
        json_writer_text(writer, "null");
    json_writer_text(writer, ",\"summary\":null},");
}

static bool keep_reported(const struct items *talk, struct api_request *out) {
    struct api_reader *reader = talk->reader;
    struct json_writer counter = {0};
    responses_reader_write_reported(&counter, talk, true);
    bool all = counter.count <= RESPONSES_READER_REPORTED_BYTES_MAX;
    if (!all) counter = (struct json_writer){0};
    if (!all) responses_reader_write_reported(&counter, talk, false);
    struct json_writer writer = {.out = arena_take(reader->arena, counter.count + 1),
                                 .room = counter.count};
    if (!writer.out) return api_reader_no_memory(reader);
    responses_reader_write_reported(&writer, talk, all);
    check(json_writer_fits(&writer));
    out->reported = (struct bytes){writer.out, writer.count};
    return true;
}

bool responses_reader_read(struct api_reader *reader, struct api_request *out) {
    struct items talk = {.reader = reader, .builder = chat_builder_open(reader->arena)};
    return read_input(&talk, out) && read_text_field(reader, out) &&
           responses_tools_read(reader, &talk.builder, out, &talk.tools) &&
           read_reasoning_field(reader, out) && read_include(reader, out) &&
           keep_reported(&talk, out);
}
