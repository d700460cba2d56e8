/* SPDX-License-Identifier: Apache-2.0
 * HTTP bodies into the API parser: the first byte chooses the dialect and the format of calls, the
 * rest is the body. What is accepted is then walked, so that a slice that points outside is read,
 * and what binds the answer must be a JSON object again; what is refused must come with a status
 * and an error body that is JSON again.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/tree.h"
#include "base/tree_extent.h"
#include "serving/gateway/api/api_request.h"
#include "serving/gateway/dialects/anthropic_dialect.h"
#include "serving/gateway/dialects/chat_dialect.h"
#include "serving/gateway/dialects/completion_dialect.h"
#include "serving/gateway/dialects/ollama_dialect.h"
#include "serving/gateway/dialects/responses_dialect.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct dialect *const dialects[] = {&completion_dialect,  &chat_dialect,
                                                 &anthropic_dialect,   &responses_dialect,
                                                 &ollama_chat_dialect, &ollama_generate_dialect};

static uint64_t sum;

static void walk(struct bytes text) {
    for (size_t i = 0; i < text.count; i++)
        sum += (uint8_t)text.data[i];
}

/* What renderers rely on. */
static void walk_messages(const struct tree *messages) {
    check(tree_count(messages) > 0);
    for (size_t i = 0; i < tree_count(messages); i++) {
        const struct tree *message = tree_at(messages, i);
        const struct tree *content = tree_member(message, "content");
        struct bytes role, text;
        check(tree_get_string(tree_member(message, "role"), &role));
        if (!content || tree_is_null(content)) check(bytes_equal(role, BYTES_LITERAL("assistant")));
        if (content && tree_get_string(content, &text)) walk(text);
    }
}

static void walk_tools(const struct tree *tools) {
    check(tree_count(tools) > 0);
    for (size_t i = 0; i < tree_count(tools); i++) {
        const struct tree *function = tree_member(tree_at(tools, i), "function");
        struct bytes name;
        check(tree_get_string(tree_member(function, "name"), &name));
        walk(name);
    }
}

static void walk_constraint(const struct api_constraint *constraint) {
    static char memory[8 << 20];
    struct arena arena;
    const struct tree *form;
    struct error error;
    check(!constraint->field == !constraint->form.count);
    check(constraint->form.count || !constraint->at.count);
    if (!constraint->form.count) return;
    arena_over(&arena, memory, sizeof memory);
    check(tree_parse(&arena, constraint->form, "form", &form, &error) == STATUS_OK);
    check(tree_kind(form) == TREE_OBJECT);
    walk(constraint->at);
}

static void walk_request(const struct dialect *dialect, const struct api_request *request) {
    check((request->messages != NULL) == dialect->chats);
    if (request->messages) walk_messages(request->messages);
    if (request->tools) walk_tools(request->tools);
    walk(request->reported);
    check(request->warning.count <= API_WARNING_BYTES_MAX);
    for (size_t i = 0; i < request->warning.count; i++)
        check(request->warning.data[i] >= ' ' && request->warning.data[i] < 0x7F);
    check(request->prompt_count >= 1 && request->choice_count >= 1);
    check(request->prompt_count * request->choice_count <= LIMIT_ANSWERS);
    for (uint32_t i = 0; request->prompts && i < request->prompt_count; i++) {
        const struct api_prompt *prompt = &request->prompts[i];
        check(!prompt->tokens == !request->prompts[0].tokens);
        walk(prompt->text);
        for (size_t t = 0; t < prompt->token_count; t++)
            check(prompt->tokens[t] < LIMIT_VOCAB);
    }
    check(request->sampling.temperature >= 0 && request->sampling.temperature <= 2);
    check(request->sampling.top_p >= 0 && request->sampling.top_p <= 1);
    const struct sampling *sampling = &request->sampling;
    check(sampling->min_p >= 0 && sampling->min_p <= 1);
    check(sampling->frequency_penalty >= -2 && sampling->frequency_penalty <= 2);
    check(sampling->presence_penalty >= -2 && sampling->presence_penalty <= 2);
    check(sampling->repetition_penalty >= 0 && sampling->repetition_penalty <= 10);
    check(sampling->top_logprobs <= LIMIT_TOP_LOGPROBS && (sampling->flags & ~SAMPLING_FLAGS) == 0);
    check(request->choice_count >= 1 && request->choice_count <= LIMIT_CHOICES);
    check(!request->tools || (request->messages && tree_count(request->tools) > 0 &&
                              tree_count(request->tools) <= LIMIT_TOOLS));
    check(request->thinking <= CHAT_THINKING_ON && !(request->continues && request->opens_turn));
    check(request->user_id.count <= LIMIT_USER_ID);
    walk_constraint(&request->constraint);
    walk(request->effort);
    walk(request->suffix);
    check(request->bias_count <= LIMIT_LOGIT_BIASES &&
          request->stop_token_count <= LIMIT_STOP_TOKENS);
    for (uint32_t i = 0; i < request->bias_count; i++)
        check(request->biases[i].token < LIMIT_VOCAB && request->biases[i].bias >= -100 &&
              request->biases[i].bias <= 100);
    for (uint32_t i = 0; i < request->stop_token_count; i++)
        check(request->stop_tokens[i] < LIMIT_VOCAB);
    check(!request->stops || request->stops->count <= LIMIT_STOP_STRINGS);
}

static void check_error(const struct dialect *dialect, const struct api_error *error) {
    static char memory[1 << 16], text[8192];
    struct json_writer writer = {.out = text, .room = sizeof text};
    struct arena arena;
    const struct tree *root;
    struct error reason;
    dialect->write_error(&writer, error);
    check(json_writer_fits(&writer));
    arena_over(&arena, memory, sizeof memory);
    check(tree_parse(&arena, (struct bytes){text, writer.count}, "error", &root, &reason) ==
          STATUS_OK);
    check(error->http_status >= 400 && error->http_status < 500 && error->message[0]);
}

static void count(const struct tree *value, size_t depth, struct tree_extent *extent) {
    struct tree_cursor cursor = {NULL};
    struct bytes key;
    const struct tree *member;
    extent->counts[TREE_PART_VALUES]++; /* integers, too */
    if (tree_kind(value) != TREE_OBJECT && tree_kind(value) != TREE_ARRAY) return;
    if (depth + 1 > extent->counts[TREE_PART_DEPTH]) extent->counts[TREE_PART_DEPTH] = depth + 1;
    for (size_t i = 0; i < tree_count(value); i++)
        count(tree_at(value, i), depth + 1, extent);
    while (tree_kind(value) == TREE_OBJECT && tree_next_member(value, &cursor, &key, &member)) {
        extent->counts[TREE_PART_KEYS]++;
        count(member, depth + 1, extent);
    }
}

/* What a body is said to have before it is parsed is what it then has. */
static void check_extent(struct bytes body) {
    static char memory[1 << 20];
    static const struct tree_extent any = {{SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX}};
    struct tree_extent said, found = {{0}};
    struct arena arena;
    const struct tree *root;
    struct error error;
    check(tree_extent_measure(body, &any, &said) == TREE_PART_COUNT);
    arena_over(&arena, memory, sizeof memory);
    if (tree_parse(&arena, body, "body", &root, &error)) return;
    count(root, 0, &found);
    said.counts[TREE_PART_VALUES] += said.counts[TREE_PART_INTEGERS];
    said.counts[TREE_PART_INTEGERS] = 0;
    for (int part = 0; part < TREE_PART_COUNT; part++)
        check(said.counts[part] == found.counts[part]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char memory[1 << 20];
    static const struct api_model models[] = {{{"m", 1}, CHAT_THINKING_DEFAULT}};
    static struct api_defaults defaults = {.sampling = {.temperature = 1, .top_p = 1},
                                           .models = models,
                                           .model_count = ARRAY_COUNT(models),
                                           .agent_habits = true,
                                           .thought = CHAT_THOUGHT_SWITCHED,
                                           .prints_tools = true,
                                           .reads_documents = true};
    if (size == 0) return 0;
    /* A copy of its own size, so that a read past its end is seen. */
    char *copy = malloc(size);
    check(copy);
    memcpy(copy, data, size);
    struct arena arena;
    struct api_request request = {0};
    struct api_error error = {0};
    arena_over(&arena, memory, sizeof memory);
    const struct dialect *dialect = dialects[(uint8_t)copy[0] % ARRAY_COUNT(dialects)];
    defaults.calls =
        (enum tool_format)((uint8_t)copy[0] / ARRAY_COUNT(dialects) % TOOL_FORMAT_COUNT);
    check_extent((struct bytes){copy + 1, size - 1});
    if (api_request_parse(&arena, dialect, (struct bytes){copy + 1, size - 1}, &defaults, &request,
                          &error))
        walk_request(dialect, &request);
    else
        check_error(dialect, &error);
    free(copy);
    return 0;
}
