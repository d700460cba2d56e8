/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/chat_builder.h"

struct chat_builder chat_builder_open(struct arena *arena) {
    struct chat_builder builder = {
        .arena = arena, .messages = tree_make_array(arena), .tools = tree_make_array(arena)};
    builder.failed = !builder.messages || !builder.tools;
    return builder;
}

/* ---- values ---- */

static void chat_builder_set(struct chat_builder *builder, struct tree *object, const char *key,
                             const struct tree *value) {
    if (builder->failed || !tree_set(builder->arena, object, key, value)) builder->failed = true;
}

static void chat_builder_append(struct chat_builder *builder, struct tree *array,
                                const struct tree *value) {
    if (builder->failed || !tree_append(builder->arena, array, value)) builder->failed = true;
}

static struct tree *chat_builder_text_of(struct chat_builder *builder, const char *text) {
    return tree_make_string(builder->arena, bytes_of(text));
}

struct tree *chat_builder_part(struct chat_builder *builder, const struct tree *text) {
    struct tree *part = tree_make_object(builder->arena);
    chat_builder_set(builder, part, "type", chat_builder_text_of(builder, "text"));
    chat_builder_set(builder, part, "text", text);
    return part;
}

/* ---- messages ---- */

/* Replaces a single part by its string, for templates that do not support parts. */
static const struct tree *plain(const struct tree *content) {
    if (content && tree_kind(content) == TREE_ARRAY && tree_count(content) == 1)
        return tree_member(tree_at(content, 0), "text");
    return content;
}

static struct tree *chat_builder_add_message(struct chat_builder *builder, const char *role,
                                             const struct tree *content) {
    struct tree *message = tree_make_object(builder->arena);
    chat_builder_set(builder, message, "role", chat_builder_text_of(builder, role));
    chat_builder_set(builder, message, "content", plain(content));
    chat_builder_append(builder, builder->messages, message);
    return message;
}

void chat_builder_message(struct chat_builder *builder, const char *role,
                          const struct tree *content) {
    chat_builder_end_turn(builder);
    (void)chat_builder_add_message(builder, role, content);
}

void chat_builder_result(struct chat_builder *builder, const struct tree *call_id,
                         const struct tree *content) {
    chat_builder_end_turn(builder);
    struct tree *message = chat_builder_add_message(builder, "tool", content);
    chat_builder_set(builder, message, "tool_call_id", call_id);
}

/* ---- the assistant's turn ---- */

static struct tree *array_of(struct chat_builder *builder, struct tree **array) {
    builder->in_turn = true;
    if (!*array) *array = tree_make_array(builder->arena);
    return *array;
}

void chat_builder_say(struct chat_builder *builder, const struct tree *text) {
    chat_builder_append(builder, array_of(builder, &builder->parts),
                        chat_builder_part(builder, text));
}

void chat_builder_reason(struct chat_builder *builder, const struct tree *text) {
    chat_builder_append(builder, array_of(builder, &builder->thoughts), text);
}

void chat_builder_call(struct chat_builder *builder, const struct tree *id, const struct tree *name,
                       const struct tree *arguments) {
    struct tree *call = tree_make_object(builder->arena);
    struct tree *function = tree_make_object(builder->arena);
    chat_builder_set(builder, call, "id", id);
    chat_builder_set(builder, call, "type", chat_builder_text_of(builder, "function"));
    chat_builder_set(builder, function, "name", name);
    chat_builder_set(builder, function, "arguments", arguments);
    chat_builder_set(builder, call, "function", function);
    chat_builder_append(builder, array_of(builder, &builder->calls), call);
}

const struct tree *chat_builder_join(struct arena *arena, const struct tree *texts) {
    struct bytes text = {"", 0};
    size_t total = 0, used = 0;
    if (tree_count(texts) == 1) return tree_at(texts, 0);
    for (size_t i = 0; i < tree_count(texts); i++)
        total += tree_get_string(tree_at(texts, i), &text) ? text.count + 1 : 0;
    char *joined = arena_take(arena, total + 1);
    if (!joined) return NULL;
    for (size_t i = 0; i < tree_count(texts); i++) {
        (void)tree_get_string(tree_at(texts, i), &text);
        if (i) joined[used++] = '\n';
        if (text.count) memcpy(joined + used, text.data, text.count);
        used += text.count;
    }
    return tree_make_string(arena, (struct bytes){joined, used});
}

const struct tree *chat_builder_with(struct arena *arena, const struct tree *message,
                                     const char *name, const struct tree *value) {
    struct tree *made = tree_make_object(arena);
    struct tree_cursor cursor = {0};
    struct bytes key;
    const struct tree *member;
    if (!made || !value || !tree_set(arena, made, name, value)) return NULL;
    while (tree_next_member(message, &cursor, &key, &member)) {
        if (bytes_equal(key, bytes_of(name))) continue;
        struct bytes copy = arena_copy(arena, key); /* keys must be terminated */
        if (!copy.data || !tree_set(arena, made, copy.data, member)) return NULL;
    }
    return made;
}

void chat_builder_end_turn(struct chat_builder *builder) {
    if (!builder->in_turn) return;
    struct tree *message = chat_builder_add_message(
        builder, "assistant", builder->parts ? builder->parts : tree_make_null());
    if (builder->thoughts)
        chat_builder_set(builder, message, "reasoning_content",
                         chat_builder_join(builder->arena, builder->thoughts));
    if (builder->calls) chat_builder_set(builder, message, "tool_calls", builder->calls);
    builder->thoughts = builder->parts = builder->calls = NULL;
    builder->in_turn = false;
}

bool chat_builder_end(struct chat_builder *builder) {
    chat_builder_end_turn(builder);
    return !builder->failed;
}

/* ---- tools ---- */

void chat_builder_tool(struct chat_builder *builder, const struct tree *name,
                       const struct tree *description, const struct tree *parameters,
                       const struct tree *strict) {
    struct tree *function = tree_make_object(builder->arena);
    struct tree *tool = tree_make_object(builder->arena);
    if (name) chat_builder_set(builder, function, "name", name);
    if (description) chat_builder_set(builder, function, "description", description);
    if (parameters) chat_builder_set(builder, function, "parameters", parameters);
    if (strict && tree_kind(strict) != TREE_FALSE)
        chat_builder_set(builder, function, "strict", strict);
    chat_builder_set(builder, tool, "type", chat_builder_text_of(builder, "function"));
    chat_builder_set(builder, tool, "function", function);
    chat_builder_append(builder, builder->tools, tool);
}
