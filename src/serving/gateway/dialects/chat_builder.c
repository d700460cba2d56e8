/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/chat_builder.h"

#define TOOLS_MAX 128
#define NAME_BYTES_MAX 64

struct chat_builder chat_builder_open(struct arena *arena) {
    struct chat_builder builder = {
        .arena = arena, .messages = tree_make_array(arena), .tools = tree_make_array(arena)};
    builder.failed = !builder.messages || !builder.tools;
    return builder;
}

/* ---- values ---- */

static void set(struct chat_builder *builder, struct tree *object, const char *key,
                const struct tree *value) {
    if (builder->failed || !tree_set(builder->arena, object, key, value)) builder->failed = true;
}

static void append(struct chat_builder *builder, struct tree *array, const struct tree *value) {
    if (builder->failed || !tree_append(builder->arena, array, value)) builder->failed = true;
}

static struct tree *text_of(struct chat_builder *builder, const char *text) {
    return tree_make_string(builder->arena, bytes_of(text));
}

struct tree *chat_builder_part(struct chat_builder *builder, const struct tree *text) {
    struct tree *part = tree_make_object(builder->arena);
    set(builder, part, "type", text_of(builder, "text"));
    set(builder, part, "text", text);
    return part;
}

/* ---- messages ---- */

/* A single part is its string: templates that do not know of parts see one. */
static const struct tree *plain(const struct tree *content) {
    if (content && tree_kind(content) == TREE_ARRAY && tree_count(content) == 1)
        return tree_member(tree_at(content, 0), "text");
    return content;
}

static struct tree *add_message(struct chat_builder *builder, const char *role,
                                const struct tree *content) {
    struct tree *message = tree_make_object(builder->arena);
    set(builder, message, "role", text_of(builder, role));
    set(builder, message, "content", plain(content));
    append(builder, builder->messages, message);
    return message;
}

void chat_builder_message(struct chat_builder *builder, const char *role,
                          const struct tree *content) {
    chat_builder_end_turn(builder);
    (void)add_message(builder, role, content);
}

void chat_builder_result(struct chat_builder *builder, const struct tree *call_id,
                         const struct tree *content) {
    chat_builder_end_turn(builder);
    struct tree *message = add_message(builder, "tool", content);
    set(builder, message, "tool_call_id", call_id);
}

/* ---- the assistant's turn ---- */

static struct tree *array_of(struct chat_builder *builder, struct tree **array) {
    builder->in_turn = true;
    if (!*array) *array = tree_make_array(builder->arena);
    return *array;
}

void chat_builder_say(struct chat_builder *builder, const struct tree *text) {
    append(builder, array_of(builder, &builder->parts), chat_builder_part(builder, text));
}

void chat_builder_reason(struct chat_builder *builder, struct bytes text) {
    struct bytes before = builder->reasoning;
    char *joined = arena_take(builder->arena, before.count + 1 + text.count + 1);
    size_t count = 0;
    builder->in_turn = true;
    if (!joined) {
        builder->failed = true;
        return;
    }
    if (before.count) {
        memcpy(joined, before.data, before.count);
        joined[before.count] = '\n';
        count = before.count + 1;
    }
    if (text.count) memcpy(joined + count, text.data, text.count);
    builder->reasoning = (struct bytes){joined, count + text.count};
}

void chat_builder_call(struct chat_builder *builder, const struct tree *id, const struct tree *name,
                       const struct tree *arguments) {
    struct tree *call = tree_make_object(builder->arena);
    struct tree *function = tree_make_object(builder->arena);
    set(builder, call, "id", id);
    set(builder, call, "type", text_of(builder, "function"));
    set(builder, function, "name", name);
    set(builder, function, "arguments", arguments);
    set(builder, call, "function", function);
    append(builder, array_of(builder, &builder->calls), call);
}

void chat_builder_end_turn(struct chat_builder *builder) {
    if (!builder->in_turn) return;
    struct tree *message =
        add_message(builder, "assistant", builder->parts ? builder->parts : tree_make_null());
    if (builder->reasoning.data)
        set(builder, message, "reasoning_content",
            tree_make_string(builder->arena, builder->reasoning));
    if (builder->calls) set(builder, message, "tool_calls", builder->calls);
    builder->parts = builder->calls = NULL;
    builder->reasoning = (struct bytes){NULL, 0};
    builder->in_turn = false;
}

bool chat_builder_end(struct chat_builder *builder) {
    chat_builder_end_turn(builder);
    return !builder->failed;
}

/* ---- tools ---- */

static bool is_name(struct bytes name) {
    for (size_t i = 0; i < name.count; i++) {
        char byte = name.data[i], letter = (char)(byte | 0x20);
        bool plain_byte = (letter >= 'a' && letter <= 'z') || (byte >= '0' && byte <= '9');
        if (!plain_byte && byte != '_' && byte != '-') return false;
    }
    return name.count > 0 && name.count <= NAME_BYTES_MAX;
}

bool chat_builder_tool(struct chat_builder *builder, struct api_reader *reader, const char *place,
                       const struct chat_builder_tool *tool) {
    struct bytes name, text;
    if (tree_count(builder->tools) == TOOLS_MAX)
        return api_error_set(reader->error, 400, "tools", "invalid_value",
                             "'tools' has more than %d tools.", TOOLS_MAX);
    if (!tree_get_string(tool->name, &name) || !is_name(name))
        return api_error_set(reader->error, 400, place, "invalid_value",
                             "'%s' needs a 'name': up to %d letters, digits, '_' and '-'.", place,
                             NAME_BYTES_MAX);
    if (tool->description && !tree_get_string(tool->description, &text))
        return api_error_set(reader->error, 400, place, "invalid_type",
                             "'%s': its description must be a string.", place);
    if (tool->parameters && tree_kind(tool->parameters) != TREE_OBJECT)
        return api_error_set(reader->error, 400, place, "invalid_type",
                             "'%s': the schema of its input must be an object.", place);
    struct tree *function = tree_make_object(builder->arena);
    struct tree *entry = tree_make_object(builder->arena);
    set(builder, function, "name", tool->name);
    if (tool->description) set(builder, function, "description", tool->description);
    if (tool->parameters) set(builder, function, "parameters", tool->parameters);
    set(builder, entry, "type", text_of(builder, "function"));
    set(builder, entry, "function", function);
    append(builder, builder->tools, entry);
    return true;
}
