/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/dialects/ollama_reader.h"

#include "base/check.h"
#include "base/format.h"
#include "serving/gateway/api/api_constraint.h"
#include "serving/gateway/api/api_thinking.h"
#include "serving/gateway/api/api_tools.h"
#include "serving/gateway/api/api_values.h"
#include "serving/gateway/dialects/chat_builder.h"

#define OPEN_CALLS_MAX 64 /* calls without a result that are remembered */

struct open_call { /* a call without a result */
    struct bytes name;
    const struct tree *id;
};

struct ollama_talk {
    struct api_reader *reader;
    struct chat_builder builder;
    size_t message; /* index of the message, for errors */
    uint32_t calls; /* calls so far */
    struct open_call open[OPEN_CALLS_MAX];
    size_t open_count;
};

static struct api_place place_in(const struct ollama_talk *talk, const char *rest) {
    return api_reader_place_of("messages", talk->message, rest);
}

static bool refuse_images(struct api_reader *reader, const struct tree *object, const char *place) {
    const struct tree *images = api_reader_given(object, "images");
    return !images || api_reader_is_neutral(images, NULL) ||
           api_reader_unsupported(reader, place, "this model reads no images.");
}

/* ---- calls and results ---- */

/* The id of a call: the client's, or its number in the conversation. NULL: no memory. */
static const struct tree *id_of_call(struct ollama_talk *talk, const struct tree *call) {
    const struct tree *own = api_reader_string(call, "id");
    char made[24];
    size_t count = format_text(made, sizeof made, "call_%u", talk->calls++);
    return own ? own : tree_make_string(talk->reader->arena, (struct bytes){made, count});
}

/* Reads arguments, an object or its text, as a text. NULL: no memory, or another kind. */
static const struct tree *arguments_of(struct api_reader *reader, const struct tree *function) {
    const struct tree *arguments = api_reader_given(function, "arguments");
    struct bytes text = {"{}", 2};
    if (arguments && tree_kind(arguments) == TREE_STRING) return arguments;
    if (arguments && tree_kind(arguments) != TREE_OBJECT) return NULL;
    if (arguments) text = tree_text(reader->arena, arguments);
    return text.data ? tree_make_string(reader->arena, text) : NULL;
}

static bool ollama_reader_call(struct ollama_talk *talk, const struct tree *call) {
    struct api_reader *reader = talk->reader;
    struct api_place place = place_in(talk, ".tool_calls");
    const struct tree *function = api_reader_given(call, "function");
    const struct tree *name = api_reader_string(function, "name");
    const struct tree *given = api_reader_given(function, "arguments");
    if (!name || (given && tree_kind(given) != TREE_OBJECT && tree_kind(given) != TREE_STRING))
        return api_reader_needs(reader, place.text,
                                "calls {\"function\": {\"name\": string, \"arguments\": object}}");
    const struct tree *id = id_of_call(talk, call), *arguments = arguments_of(reader, function);
    if (!id || !arguments) return api_reader_no_memory(reader);
    chat_builder_call(&talk->builder, id, name, arguments);
    if (talk->open_count == OPEN_CALLS_MAX) return true;
    struct open_call *open = &talk->open[talk->open_count++];
    open->id = id;
    return tree_get_string(name, &open->name);
}

/* Takes the call that a result answers out of the open ones. NULL: there is none. */
static const struct tree *take_open(struct ollama_talk *talk, struct bytes name) {
    size_t found = 0;
    while (name.count && found < talk->open_count && !bytes_equal(talk->open[found].name, name))
        found++;
    if (found == talk->open_count) return NULL;
    const struct tree *id = talk->open[found].id;
    talk->open_count--;
    memmove(&talk->open[found], &talk->open[found + 1],
            (talk->open_count - found) * sizeof *talk->open);
    return id;
}

static bool ollama_reader_result(struct ollama_talk *talk, const struct tree *message,
                                 const struct tree *content) {
    struct bytes name = {"", 0};
    const struct tree *id = api_reader_string(message, "tool_call_id");
    (void)tree_get_string(tree_member(message, "tool_name"), &name);
    const struct tree *open = take_open(talk, name);
    if (!id) id = open;
    if (!id)
        return api_error_set(talk->reader->error, 400, place_in(talk, "").text, "invalid_value",
                             "'%s' is a tool's result, and no call before it is without one.",
                             place_in(talk, "").text);
    chat_builder_result(&talk->builder, id, content);
    return true;
}

/* ---- messages ---- */

static bool ollama_reader_assistant(struct ollama_talk *talk, const struct tree *message,
                                    const struct tree *content) {
    const struct tree *thinking = api_reader_string(message, "thinking");
    const struct tree *calls = api_reader_given(message, "tool_calls");
    if (calls && tree_kind(calls) != TREE_ARRAY)
        return api_reader_wrong_type(talk->reader, place_in(talk, ".tool_calls").text, "an array",
                                     calls);
    chat_builder_end_turn(&talk->builder);
    if (thinking && !api_reader_is_neutral(thinking, NULL))
        chat_builder_reason(&talk->builder, thinking);
    if (tree_count(calls) == 0 || !api_reader_is_neutral(content, NULL))
        chat_builder_say(&talk->builder, content);
    talk->open_count = 0;
    for (size_t i = 0; i < tree_count(calls); i++)
        if (!ollama_reader_call(talk, tree_at(calls, i))) return false;
    return true;
}

static bool ollama_reader_message(struct ollama_talk *talk, const struct tree *message) {
    struct api_reader *reader = talk->reader;
    const struct tree *role = tree_member(message, "role");
    const struct tree *content = api_reader_given(message, "content");
    struct bytes text;
    if (tree_kind(message) != TREE_OBJECT)
        return api_reader_wrong_type(reader, place_in(talk, "").text, "an object", message);
    if (!content) content = tree_make_string(reader->arena, BYTES_LITERAL(""));
    if (!content) return api_reader_no_memory(reader);
    if (!tree_get_string(content, &text))
        return api_reader_wrong_type(reader, place_in(talk, ".content").text, "a string", content);
    if (!refuse_images(reader, message, place_in(talk, ".images").text)) return false;
    if (api_reader_is(role, "assistant")) return ollama_reader_assistant(talk, message, content);
    if (api_reader_is(role, "tool")) return ollama_reader_result(talk, message, content);
    bool is_user = api_reader_is(role, "user");
    if (!is_user && !api_reader_is(role, "system"))
        return api_error_set(reader->error, 400, place_in(talk, ".role").text, "invalid_value",
                             "'%s' must be system, user, assistant or tool.",
                             place_in(talk, ".role").text);
    chat_builder_message(&talk->builder, is_user ? "user" : "system", content);
    return true;
}

/* Lets the answer continue an assistant's text at the end, as Ollama does. */
static void read_last(struct api_request *out) {
    const struct tree *last = tree_at(out->messages, tree_count(out->messages) - 1);
    const struct tree *content = api_reader_string(last, "content");
    out->continues = api_reader_is(tree_member(last, "role"), "assistant") && content &&
                     !api_reader_is_neutral(content, NULL) && !tree_member(last, "tool_calls");
    out->opens_turn = !out->continues;
}

static bool ollama_reader_messages(struct ollama_talk *talk, struct api_request *out) {
    struct api_reader *reader = talk->reader;
    const struct tree *messages = api_reader_given(reader->root, "messages");
    if (!messages) return api_reader_missing(reader, "messages");
    if (tree_kind(messages) != TREE_ARRAY)
        return api_reader_wrong_type(reader, "messages", "an array", messages);
    for (size_t i = 0; i < tree_count(messages); i++) {
        talk->message = i;
        if (!ollama_reader_message(talk, tree_at(messages, i))) return false;
    }
    if (!chat_builder_end(&talk->builder)) return api_reader_no_memory(reader);
    out->messages = talk->builder.messages;
    read_last(out);
    return true;
}

/* ---- options ---- */

struct ollama_number {
    const char *name;
    double low, high;
    size_t offset; /* in struct api_request */
};

/* Options that choose tokens in a way that this server does not have, and their neutral values. */
static bool refuse_options(struct api_reader *reader, const struct tree *options) {
    static const struct {
        const char *name, *only;
    } refused[] = {{"typical_p", "1"}, {"tfs_z", "1"}, {"mirostat", "0"}};
    for (size_t i = 0; i < ARRAY_COUNT(refused); i++) {
        const struct tree *value = api_reader_given(options, refused[i].name);
        if (value && !api_reader_is_one_of(value, refused[i].only))
            return api_reader_unsupported(
                reader, refused[i].name,
                "tokens are chosen in another way here: see 'temperature', 'top_p', 'min_p', "
                "'top_k'.");
    }
    return true;
}

/* Reads the answer's length: 0 and less mean no limit. */
static bool read_predict(struct api_reader *reader, const struct tree *options,
                         struct api_request *out) {
    uint32_t tokens = 0;
    if (!api_reader_integer(reader, options, "num_predict", -2, INT32_MAX, &tokens)) return false;
    if ((int32_t)tokens > 0) out->new_tokens_max = tokens;
    return true;
}

/* Reads 'seed', where -1 asks for any, and 'top_k', where -1 means all. */
static bool read_integers(struct api_reader *reader, const struct tree *options,
                          struct api_request *out) {
    const struct tree *seed = api_reader_given(options, "seed");
    uint32_t top_k = out->sampling.top_k;
    if (!api_reader_integer(reader, options, "top_k", -1, INT32_MAX, &top_k)) return false;
    out->sampling.top_k = top_k == (uint32_t)-1 ? 0 : top_k;
    return !seed || api_reader_is_one_of(seed, "-1") || api_values_seed(reader, seed, out);
}

static bool ollama_reader_options(struct api_reader *reader, struct api_request *out) {
#define MEMBER(name) offsetof(struct api_request, sampling.name)
    static const struct ollama_number numbers[] = {
        {"temperature", 0, 2, MEMBER(temperature)},
        {"top_p", 0, 1, MEMBER(top_p)},
        {"min_p", 0, 1, MEMBER(min_p)},
        {"repeat_penalty", 0.01, 10, MEMBER(repetition_penalty)},
        {"presence_penalty", -2, 2, MEMBER(presence_penalty)},
        {"frequency_penalty", -2, 2, MEMBER(frequency_penalty)},
    };
#undef MEMBER
    const struct tree *options = api_reader_given(reader->root, "options");
    const struct tree *stop = api_reader_given(options, "stop");
    if (!options) return true;
    if (tree_kind(options) != TREE_OBJECT)
        return api_reader_wrong_type(reader, "options", "an object", options);
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++)
        if (!api_reader_number(reader, options, numbers[i].name, numbers[i].low, numbers[i].high,
                               (float *)((char *)out + numbers[i].offset)))
            return false;
    return refuse_options(reader, options) && read_predict(reader, options, out) &&
           read_integers(reader, options, out) &&
           (!stop || api_values_stops_named(reader, "stop", stop, out));
}

/* ---- both endpoints ---- */

/* A request without text asks to load the model. It is always loaded, so an empty prompt is
 * tokenized and the answer is that of write_count. */
static bool ask_to_load(struct api_reader *reader, struct api_request *out) {
    struct chat_builder builder = chat_builder_open(reader->arena);
    chat_builder_message(&builder, "user", tree_make_string(reader->arena, BYTES_LITERAL("")));
    if (!chat_builder_end(&builder)) return api_reader_no_memory(reader);
    out->messages = builder.messages;
    out->tokens_only = true;
    out->stream = false;
    return true;
}

/* Reads 'think': true, false, or an effort. */
static bool read_think(struct api_reader *reader, struct api_request *out) {
    const struct tree *value = api_reader_given(reader->root, "think");
    struct bytes effort;
    bool on;
    if (!value) return true;
    if (tree_get_bool(value, &on))
        return api_thinking_ask(reader, "think", on ? CHAT_THINKING_ON : CHAT_THINKING_OFF, out);
    if (tree_get_string(value, &effort))
        return api_thinking_ask_effort(reader, "think", effort, out);
    return api_reader_wrong_type(reader, "think", "a boolean or a string", value);
}

static bool read_shared(struct api_reader *reader, struct api_request *out) {
    const struct tree *format = api_reader_given(reader->root, "format");
    if (!api_reader_given(reader->root, "stream")) out->stream = true;
    return (!format || api_constraint_read_plain(reader, "format", format, out)) &&
           read_think(reader, out) && ollama_reader_options(reader, out);
}

bool ollama_reader_chat(struct api_reader *reader, struct api_request *out) {
    static const struct api_tool_choice any = {0};
    struct ollama_talk talk = {.reader = reader, .builder = chat_builder_open(reader->arena)};
    const struct tree *messages = api_reader_given(reader->root, "messages");
    const struct tree *tools = api_reader_given(reader->root, "tools");
    if (messages && tree_kind(messages) == TREE_ARRAY && tree_count(messages) == 0)
        return ask_to_load(reader, out);
    return ollama_reader_messages(&talk, out) && read_shared(reader, out) &&
           (!tools || api_tools_check(reader, tools)) && api_tools_give(reader, tools, &any, out);
}

bool ollama_reader_generate(struct api_reader *reader, struct api_request *out) {
    struct chat_builder builder = chat_builder_open(reader->arena);
    struct bytes text;
    const struct tree *prompt = api_reader_given(reader->root, "prompt");
    const struct tree *system = api_reader_given(reader->root, "system");
    if (!prompt) return api_reader_missing(reader, "prompt");
    if (!tree_get_string(prompt, &text))
        return api_reader_wrong_type(reader, "prompt", "a string", prompt);
    if (text.count == 0) return ask_to_load(reader, out);
    if (system && !tree_get_string(system, &text))
        return api_reader_wrong_type(reader, "system", "a string", system);
    if (system && text.count) chat_builder_message(&builder, "system", system);
    chat_builder_message(&builder, "user", prompt);
    if (!chat_builder_end(&builder)) return api_reader_no_memory(reader);
    out->messages = builder.messages;
    return refuse_images(reader, reader->root, "images") && read_shared(reader, out);
}
