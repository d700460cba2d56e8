/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/anthropic_reader.h"

#include "base/check.h"
#include "base/format.h"
#include "serving/gateway/api/api_constraint.h"
#include "serving/gateway/api/api_thinking.h"
#include "serving/gateway/api/api_tools.h"
#include "serving/gateway/api/api_values.h"
#include "serving/gateway/dialects/chat_builder.h"

struct conversation {
    struct api_reader *reader;
    struct chat_builder builder;
    struct tree *said; /* text parts of the open user turn; NULL: none is open */
    size_t message;    /* index of the message, for errors */
};

/* Returns a path like "messages[2].content[5]". */
static struct api_place place_of_block(const struct conversation *talk, size_t block) {
    struct api_place place;
    format_text(place.text, sizeof place.text, "messages[%zu].content[%zu]", talk->message, block);
    return place;
}

/* ---- text ---- */

/* Returns the text of a "tool_reference": the definition of the tool, which the prompt does not
 * show elsewhere if it is deferred. NULL: set in the error. */
static const struct tree *describe_tool(struct conversation *talk, const char *place,
                                        const struct tree *block) {
    struct api_reader *reader = talk->reader;
    const struct tree *tools = api_reader_given(reader->root, "tools");
    static const char *const members[][2] = {
        {"description", "description"}, {"name", "name"}, {"input_schema", "parameters"}};
    struct bytes wanted, name;
    if (!tree_get_string(tree_member(block, "tool_name"), &wanted)) tools = NULL;
    for (size_t i = 0; i < tree_count(tools); i++) {
        const struct tree *tool = tree_at(tools, i);
        if (!tree_get_string(tree_member(tool, "name"), &name) || !bytes_equal(name, wanted))
            continue;
        struct tree *function = tree_make_object(reader->arena);
        bool made = function != NULL;
        for (size_t k = 0; made && k < ARRAY_COUNT(members); k++) {
            const struct tree *value = api_reader_given(tool, members[k][0]);
            made = !value || tree_set(reader->arena, function, members[k][1], value);
        }
        struct bytes text = made ? tree_text(reader->arena, function) : (struct bytes){0};
        const struct tree *string = text.data ? tree_make_string(reader->arena, text) : NULL;
        if (!string) api_reader_no_memory(reader);
        return string;
    }
    api_reader_needs(reader, place, "a 'tool_reference' with the 'tool_name' of one of 'tools'");
    return NULL;
}

/* Reads a string or blocks of type "text" as the content of a message. */
static bool read_texts(struct conversation *talk, const char *place, const struct tree *value,
                       const struct tree **out) {
    struct api_reader *reader = talk->reader;
    struct bytes text;
    *out = value;
    if (tree_get_string(value, &text)) return true;
    if (tree_kind(value) != TREE_ARRAY)
        return api_reader_wrong_type(reader, place, "a string or an array of blocks", value);
    struct tree *parts = tree_make_array(reader->arena);
    for (size_t i = 0; i < tree_count(value); i++) {
        const struct tree *block = tree_at(value, i), *words = api_reader_string(block, "text");
        if (api_reader_is_type(block, "tool_reference")) {
            if (!(words = describe_tool(talk, place, block))) return false;
        } else if (!api_reader_is_type(block, "text")) {
            return api_reader_refuse_type(reader, place, block);
        }
        if (!words) return api_reader_needs(reader, place, "blocks with a string 'text'");
        if (!tree_append(reader->arena, parts, chat_builder_part(&talk->builder, words)))
            return api_reader_no_memory(reader);
    }
    *out = parts;
    return parts ? true : api_reader_no_memory(reader);
}

/* ---- user turns ---- */

/* Begins a user turn, or a further message in it: consecutive user messages are one turn, with an
 * empty line between. */
static bool open_user(struct conversation *talk) {
    struct arena *arena = talk->reader->arena;
    if (!talk->said) talk->said = tree_make_array(arena);
    if (!talk->said) return api_reader_no_memory(talk->reader);
    if (tree_count(talk->said) == 0) return true;
    const struct tree *line = tree_make_string(arena, BYTES_LITERAL("\n\n"));
    return (line && tree_append(arena, talk->said, chat_builder_part(&talk->builder, line))) ||
           api_reader_no_memory(talk->reader);
}

static void end_user(struct conversation *talk) {
    if (tree_count(talk->said)) chat_builder_message(&talk->builder, "user", talk->said);
    talk->said = NULL;
}

static bool anthropic_reader_say(struct conversation *talk, const struct tree *text) {
    return tree_append(talk->reader->arena, talk->said, chat_builder_part(&talk->builder, text)) ||
           api_reader_no_memory(talk->reader);
}

static bool anthropic_reader_read_result(struct conversation *talk, const struct tree *block,
                                         const char *place) {
    struct api_reader *reader = talk->reader;
    const struct tree *id = api_reader_string(block, "tool_use_id");
    const struct tree *value = api_reader_given(block, "content"), *content;
    if (!id) return api_reader_needs(reader, place, "a string 'tool_use_id'");
    if (!value) value = tree_make_string(reader->arena, BYTES_LITERAL(""));
    if (!value) return api_reader_no_memory(reader);
    if (!read_texts(talk, place, value, &content)) return false;
    chat_builder_result(&talk->builder, id, content);
    return true;
}

/* Reads the blocks of a user message. Tool results come first, because the model expects them
 * directly after its calls. */
static bool read_user_blocks(struct conversation *talk, const struct tree *blocks) {
    struct api_reader *reader = talk->reader;
    bool opened = false;
    for (size_t i = 0; i < tree_count(blocks); i++) {
        const struct tree *block = tree_at(blocks, i);
        struct api_place place = place_of_block(talk, i);
        if (api_reader_is_type(block, "tool_result")) {
            if (!anthropic_reader_read_result(talk, block, place.text)) return false;
            continue;
        }
        if (!api_reader_is_type(block, "text"))
            return api_reader_refuse_type(reader, place.text, block);
        const struct tree *text = api_reader_string(block, "text");
        if (!text) return api_reader_needs(reader, place.text, "a string 'text'");
        if (!opened && !open_user(talk)) return false;
        opened = true;
        if (!anthropic_reader_say(talk, text)) return false;
    }
    return true;
}

/* ---- assistant turns ---- */

static bool anthropic_reader_read_call(struct conversation *talk, const struct tree *block,
                                       const char *place) {
    struct api_reader *reader = talk->reader;
    const struct tree *id = api_reader_string(block, "id"),
                      *name = api_reader_string(block, "name");
    const struct tree *input = api_reader_given(block, "input");
    if (!id || !name) return api_reader_needs(reader, place, "strings 'id' and 'name'");
    if (!input || tree_kind(input) != TREE_OBJECT)
        return api_reader_needs(reader, place, "an object 'input'");
    struct bytes text = tree_text(reader->arena, input);
    if (!text.data) return api_reader_no_memory(reader);
    chat_builder_call(&talk->builder, id, name, tree_make_string(reader->arena, text));
    return true;
}

static bool read_assistant_block(struct conversation *talk, const struct tree *block,
                                 const char *place) {
    struct api_reader *reader = talk->reader;
    if (api_reader_is_type(block, "text")) {
        const struct tree *text = api_reader_string(block, "text");
        if (!text) return api_reader_needs(reader, place, "a string 'text'");
        chat_builder_say(&talk->builder, text);
        return true;
    }
    if (api_reader_is_type(block, "thinking")) {
        const struct tree *thinking = api_reader_string(block, "thinking");
        if (!thinking) return api_reader_needs(reader, place, "a string 'thinking'");
        chat_builder_reason(&talk->builder, thinking);
        return true;
    }
    if (api_reader_is_type(block, "redacted_thinking")) return true;
    if (api_reader_is_type(block, "tool_use"))
        return anthropic_reader_read_call(talk, block, place);
    return api_reader_refuse_type(reader, place, block);
}

static bool read_assistant(struct conversation *talk, const struct tree *content) {
    struct bytes text;
    end_user(talk);
    if (tree_get_string(content, &text)) {
        chat_builder_say(&talk->builder, content);
        return true;
    }
    for (size_t i = 0; i < tree_count(content); i++)
        if (!read_assistant_block(talk, tree_at(content, i), place_of_block(talk, i).text))
            return false;
    return true;
}

/* ---- messages ---- */

static bool anthropic_reader_read_message(struct conversation *talk, const struct tree *message) {
    struct api_reader *reader = talk->reader;
    struct api_place place = api_reader_place_of("messages", talk->message, "");
    struct bytes text;
    if (tree_kind(message) != TREE_OBJECT)
        return api_reader_wrong_type(reader, place.text, "an object", message);
    const struct tree *content = api_reader_given(message, "content");
    const struct tree *role = tree_member(message, "role");
    place = api_reader_place_of("messages", talk->message, ".content");
    if (!content) return api_reader_missing(reader, place.text);
    bool plain = tree_get_string(content, &text);
    if (!plain && tree_kind(content) != TREE_ARRAY)
        return api_reader_wrong_type(reader, place.text, "a string or an array of blocks", content);
    if (!plain && tree_count(content) == 0)
        return api_error_set(reader->error, 400, place.text, "invalid_value", "'%s' is empty.",
                             place.text);
    if (api_reader_is(role, "assistant")) return read_assistant(talk, content);
    if (api_reader_is(role, "user") && !plain) return read_user_blocks(talk, content);
    if (api_reader_is(role, "user")) return open_user(talk) && anthropic_reader_say(talk, content);
    if (api_reader_is(role, "system")) {
        if (!read_texts(talk, place.text, content, &content)) return false;
        end_user(talk);
        chat_builder_message(&talk->builder, "system", content);
        return true;
    }
    place = api_reader_place_of("messages", talk->message, ".role");
    return api_error_set(reader->error, 400, place.text, "invalid_value",
                         "'%s' must be 'user', 'assistant' or 'system'.", place.text);
}

/* Lets the answer continue an assistant message at the end. Refuses one with calls at the end. */
static bool read_end(struct conversation *talk, struct api_request *out) {
    size_t count = tree_count(out->messages);
    const struct tree *last = tree_at(out->messages, count - 1);
    if (!last)
        return api_error_set(talk->reader->error, 400, "messages", "invalid_value",
                             "'messages' say nothing.");
    if (!api_reader_is(tree_member(last, "role"), "assistant")) return true;
    if (tree_member(last, "tool_calls"))
        return api_error_set(talk->reader->error, 400, "messages", "invalid_value",
                             "'messages' ends with 'tool_use': its 'tool_result' is missing.");
    out->continues = true;
    out->opens_turn = false;
    return true;
}

static bool anthropic_reader_read_messages(struct conversation *talk, struct api_request *out) {
    struct api_reader *reader = talk->reader;
    const struct tree *system = api_reader_given(reader->root, "system"), *content;
    const struct tree *messages = api_reader_given(reader->root, "messages");
    if (!messages) return api_reader_missing(reader, "messages");
    if (tree_kind(messages) != TREE_ARRAY)
        return api_reader_wrong_type(reader, "messages", "an array", messages);
    if (tree_count(messages) == 0)
        return api_error_set(reader->error, 400, "messages", "invalid_value",
                             "'messages' is empty; send at least one.");
    if (system && !read_texts(talk, "system", system, &content)) return false;
    if (system && !api_reader_is_neutral(content, NULL))
        chat_builder_message(&talk->builder, "system", content);
    for (size_t i = 0; i < tree_count(messages); i++) {
        talk->message = i;
        if (!anthropic_reader_read_message(talk, tree_at(messages, i))) return false;
    }
    end_user(talk);
    if (!chat_builder_end(&talk->builder)) return api_reader_no_memory(reader);
    out->messages = talk->builder.messages;
    return read_end(talk, out);
}

/* ---- tools ---- */

static bool anthropic_reader_read_tool(struct conversation *talk, const struct tree *tool,
                                       size_t index) {
    static const struct {
        const char *name, *why;
    } refused[] = {
        {"input_examples", "put them into the description."},
    };
    bool deferred = false;
    struct api_reader *reader = talk->reader;
    struct api_place place = api_reader_place_of("tools", index, "");
    if (tree_kind(tool) != TREE_OBJECT)
        return api_reader_wrong_type(reader, place.text, "an object", tool);
    if (api_reader_given(tool, "type") && !api_reader_is_type(tool, "custom"))
        return api_reader_refuse_type(reader, place.text, tool);
    for (size_t i = 0; i < ARRAY_COUNT(refused); i++) {
        const struct tree *value = api_reader_given(tool, refused[i].name);
        struct api_place member;
        if (!value || api_reader_is_neutral(value, NULL)) continue;
        format_text(member.text, sizeof member.text, "tools[%zu].%s", index, refused[i].name);
        return api_reader_unsupported(reader, member.text, refused[i].why);
    }
    const struct tree *schema = api_reader_given(tool, "input_schema");
    if (!schema) return api_reader_needs(reader, place.text, "an object 'input_schema'");
    if (!api_reader_flag(reader, tool, "defer_loading", &deferred)) return false;
    if (deferred) return true; /* a tool_reference shows it */
    chat_builder_tool(&talk->builder, api_reader_given(tool, "name"),
                      api_reader_given(tool, "description"), schema,
                      api_reader_given(tool, "strict"));
    return true;
}

static bool anthropic_reader_read_tools(struct conversation *talk) {
    struct api_reader *reader = talk->reader;
    const struct tree *tools = api_reader_given(reader->root, "tools");
    if (!tools) return true;
    if (tree_kind(tools) != TREE_ARRAY)
        return api_reader_wrong_type(reader, "tools", "an array", tools);
    for (size_t i = 0; i < tree_count(tools); i++)
        if (!anthropic_reader_read_tool(talk, tree_at(tools, i), i)) return false;
    if (!chat_builder_end(&talk->builder)) return api_reader_no_memory(reader);
    return api_tools_check(reader, talk->builder.tools);
}

static bool read_tool_choice(struct conversation *talk, struct api_request *out) {
    struct api_reader *reader = talk->reader;
    const struct tree *tools = talk->builder.tools;
    const struct tree *value = api_reader_given(reader->root, "tool_choice");
    struct api_tool_choice choice = {.none = api_reader_is_type(value, "none"),
                                     .forced = api_reader_is_type(value, "any")};
    if (!value) return api_tools_give(reader, tools, &choice, out);
    if (tree_kind(value) != TREE_OBJECT)
        return api_reader_wrong_type(reader, "tool_choice", "an object", value);
    if (!api_reader_flag(reader, value, "disable_parallel_tool_use", &choice.single)) return false;
    out->one_call = choice.single;
    if (api_reader_is_type(value, "tool")) {
        choice.forced = choice.single = true;
        if (!api_tools_name(reader, "tool_choice", tools, tree_member(value, "name"), &choice))
            return false;
    } else if (!choice.none && !choice.forced && !api_reader_is_type(value, "auto")) {
        return api_reader_needs(reader, "tool_choice", "a 'type': 'auto', 'any', 'tool' or 'none'");
    }
    return api_tools_give(reader, tools, &choice, out);
}

/* ---- objects ---- */

/* "budget_tokens" and "display" have no effect: the model decides how long it thinks, and its
 * reasoning is always returned. */
static bool read_thinking(struct api_reader *reader, struct api_request *out) {
    const struct tree *thinking = api_reader_given(reader->root, "thinking");
    uint32_t budget;
    if (!thinking) return true;
    if (tree_kind(thinking) != TREE_OBJECT)
        return api_reader_wrong_type(reader, "thinking", "an object", thinking);
    if (!api_reader_integer(reader, thinking, "budget_tokens", 1, INT32_MAX, &budget)) return false;
    if (api_reader_is_type(thinking, "enabled"))
        return api_thinking_ask(reader, "thinking", CHAT_THINKING_ON, out);
    if (api_reader_is_type(thinking, "disabled"))
        return api_thinking_ask(reader, "thinking", CHAT_THINKING_OFF, out);
    return api_reader_is_type(thinking, "adaptive") ||
           api_reader_needs(reader, "thinking", "a 'type': 'enabled', 'disabled' or 'adaptive'");
}

static bool read_output_config(struct api_reader *reader, struct api_request *out) {
    const struct tree *config = api_reader_given(reader->root, "output_config");
    if (!config) return true;
    if (tree_kind(config) != TREE_OBJECT)
        return api_reader_wrong_type(reader, "output_config", "an object", config);
    struct bytes effort = {"", 0};
    return api_reader_text(reader, config, "effort", &effort) &&
           (effort.count == 0 ||
            api_thinking_ask_effort(reader, "output_config.effort", effort, out));
}

/* Reads the output format, also under its older name. */
static bool read_output_format(struct api_reader *reader, struct api_request *out) {
    const struct tree *old = api_reader_given(reader->root, "output_format"),
                      *config = api_reader_given(reader->root, "output_config");
    const struct tree *format = config ? api_reader_given(config, "format") : NULL;
    if (old && !api_constraint_read_format(reader, "output_format", old, out)) return false;
    return !format || api_constraint_read_format(reader, "output_config.format", format, out);
}

/* Accepts only edits that keep everything. */
static bool read_context_management(struct api_reader *reader) {
    const struct tree *value = api_reader_given(reader->root, "context_management");
    if (!value) return true;
    const struct tree *edits = tree_kind(value) == TREE_OBJECT ? tree_member(value, "edits") : NULL;
    bool neutral = edits || api_reader_is_neutral(value, NULL);
    for (size_t i = 0; edits && i < tree_count(edits); i++)
        neutral = neutral && api_reader_is(tree_member(tree_at(edits, i), "keep"), "all");
    return neutral ||
           api_reader_unsupported(reader, "context_management",
                                  "this server edits no conversation; shorten it yourself.");
}

/* Reads user_id. Any string is accepted, because agents send hashes, addresses and JSON. */
static bool read_metadata(struct api_reader *reader, struct api_request *out) {
    const struct tree *metadata = api_reader_given(reader->root, "metadata");
    if (!metadata) return true;
    if (tree_kind(metadata) != TREE_OBJECT)
        return api_reader_wrong_type(reader, "metadata", "an object", metadata);
    const struct tree *id = api_reader_given(metadata, "user_id");
    return !id || tree_get_string(id, &out->user_id) ||
           api_reader_wrong_type(reader, "metadata.user_id", "a string", id);
}

static bool read_stops(struct api_reader *reader, struct api_request *out) {
    static const char name[] = "stop_sequences";
    const struct tree *value = api_reader_given(reader->root, name);
    if (!value) return true;
    if (tree_kind(value) != TREE_ARRAY)
        return api_reader_wrong_type(reader, name, "an array of strings", value);
    return api_values_stops_named(reader, name, value, out);
}

bool anthropic_reader_read(struct api_reader *reader, struct api_request *out) {
    struct conversation talk = {.reader = reader, .builder = chat_builder_open(reader->arena)};
    return anthropic_reader_read_messages(&talk, out) && read_output_format(reader, out) &&
           anthropic_reader_read_tools(&talk) && read_tool_choice(&talk, out) &&
           read_thinking(reader, out) && read_output_config(reader, out) &&
           read_context_management(reader) && read_metadata(reader, out) && read_stops(reader, out);
}
