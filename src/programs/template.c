/* SPDX-License-Identifier: Apache-2.0
 * fathom template: prints the prompt that a server with this model computes for a request's body,
 * by the gateway's own functions (serving/gateway/chat_prompt.h), as text or as token ids.
 *
 * --template and --jsonl render with a chat template as `transformers` does: the template gets the
 * request's values unchanged, and add_generation_prompt is off unless the request has it. --jsonl
 * reads one request and prints one result per line, to compare many (`./dev templates`).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/file.h"
#include "command/json_print.h"
#include "command/model_run.h"
#include "host/process/model_prompt.h"
#include "programs/programs.h"
#include "serving/gateway/chat_prompt.h"
#include "serving/jinja/evaluate/jinja.h"

#define REQUEST_BYTES_MAX ((size_t)1 << 28)
#define ARENA_BYTES ((size_t)4 << 30) /* lazily taken */
#define OWN_VARIABLES 6

struct template_values {
    const char *model, *template, *chat_template, *tools_template, *agent_habits, *api;
    bool list, tokens, jsonl;
    uint64_t time;
};

#define AT(field) .offset = offsetof(struct template_values, field)

static const struct option template_rows[] = {
    {"model", OPTION_TEXT, NULL,
     "directory with chat_template.jinja or tokenizer_config.json, or GGUF file (default: the "
     "model that comes "
     "with Fathom)",
     AT(model)},
    {"chat-template", OPTION_TEXT, NULL, CHAT_TEMPLATE_HELP, AT(chat_template)},
    TOOLS_TEMPLATE_OPTION(struct template_values, tools_template),
    {"api", OPTION_CHOICE, "chat",
     "the API of the request: chat (/v1/chat/completions), messages (/v1/messages, Anthropic's), "
     "responses (/v1/responses) or ollama (/api/chat)",
     AT(api), .choices = "chat|messages|responses|ollama"},
    {"agent-habits", OPTION_CHOICE, "on", "as in `fathom serve`", AT(agent_habits),
     .choices = "on|off"},
    {"list", OPTION_FLAG, NULL, "list the built-in templates", AT(list)},
    {"template", OPTION_TEXT, NULL,
     "render with the template of this file as `transformers` does: without a prompt for the "
     "answer unless the request has \"add_generation_prompt\"; special tokens are the request's, "
     "or --model's if given",
     AT(template)},
    {"tokens", OPTION_FLAG, NULL,
     "print the prompt's token ids; text of the request never becomes a special token", AT(tokens)},
    {"jsonl", OPTION_FLAG, NULL,
     "render like --template: read one request per line from standard input, optionally with its "
     "own \"template\"; write lines {\"text\":\"...\"} or {\"error\":\"...\"}",
     AT(jsonl)},
    {"time", OPTION_COUNT, NULL, "time of strftime_now, in seconds since 1970; 0: the clock",
     AT(time)},
};

const struct option_table template_options = {
    .command = "template",
    .arguments = "[REQUEST.json]",
    .description =
        "Prints the prompt that a server computes for the body of a request, byte for byte, and\n"
        "nothing else. REQUEST.json (- for standard input) is the body. With --template or\n"
        "--jsonl it holds \"messages\" and may hold \"tools\", \"documents\",\n"
        "\"chat_template_kwargs\", \"add_generation_prompt\", \"bos_token\" and \"eos_token\".",
    .options = template_rows,
    .option_count = ARRAY_COUNT(template_rows),
    .positional_max = 1,
};

struct template_session {
    struct template_values values;
    struct model_text chat, words; /* the template; the tokenizer */
    struct model_prompt prompt;
    struct lazy_memory memory; /* for one request */
    struct arena arena;
    struct error error;
};

/* ---- variables ---- */

struct template_request {
    const struct tree *root;
    struct jinja_variable *variables;
    size_t variable_count;
};

static enum status template_no_memory(struct template_session *session) {
    return error_set(&session->error, STATUS_NO_MEMORY, "no memory for this request");
}

static enum status wrong_type(struct template_session *session, const char *name,
                              const char *expected, const struct tree *found) {
    return error_set(&session->error, STATUS_INVALID, "\"%s\" is %s, expected %s", name,
                     found ? tree_name(found) : "missing", expected);
}

static void add(struct template_request *request, const char *name, struct value value) {
    request->variables[request->variable_count++] = (struct jinja_variable){bytes_of(name), value};
}

/* Adds an array. If it is absent or null, the variable is None but defined. */
static enum status template_add_list(struct template_session *session,
                                     struct template_request *request, const char *name) {
    const struct tree *list = tree_member(request->root, name);
    struct value value = value_none();
    if (list && !tree_is_null(list)) {
        if (tree_kind(list) != TREE_ARRAY) return wrong_type(session, name, "an array", list);
        if (!value_of_tree(&session->arena, list, &value)) return template_no_memory(session);
    }
    add(request, name, value);
    return STATUS_OK;
}

static enum status template_add_token(struct template_session *session,
                                      struct template_request *request, const char *name) {
    const struct tree *token = tree_member(request->root, name);
    struct bytes text;
    struct value value;
    if (!token || tree_is_null(token)) return STATUS_OK;
    if (!tree_get_string(token, &text)) return wrong_type(session, name, "a string", token);
    if (!value_of_text(&session->arena, text, VALUE_TRUSTED, &value))
        return template_no_memory(session);
    add(request, name, value);
    return STATUS_OK;
}

static enum status template_add_prompts(struct template_session *session,
                                        struct template_request *request) {
    static const char name[] = "add_generation_prompt";
    const struct tree *member = tree_member(request->root, name);
    bool prompts = false;
    if (member && !tree_is_null(member) && !tree_get_bool(member, &prompts))
        return wrong_type(session, name, "true or false", member);
    add(request, name, value_bool(prompts));
    return STATUS_OK;
}

static enum status template_add_given(struct template_session *session,
                                      struct template_request *request, const struct tree *given) {
    struct tree_cursor cursor = {NULL};
    const struct tree *member;
    struct jinja_variable *variable = &request->variables[request->variable_count];
    while (tree_next_member(given, &cursor, &variable->name, &member)) {
        if (!value_of_tree(&session->arena, member, &variable->value))
            return template_no_memory(session);
        variable = &request->variables[++request->variable_count];
    }
    return STATUS_OK;
}

/* Sets the variables that `transformers` passes to a template. */
static enum status read_variables(struct template_session *session,
                                  struct template_request *request) {
    const struct tree *given = tree_member(request->root, "chat_template_kwargs"), *member;
    const struct tree *messages = tree_member(request->root, "messages");
    const struct chat_source *source = &session->chat.chat_template.source;
    size_t count = CHAT_SOURCE_TOKENS_MAX + OWN_VARIABLES;
    struct tree_cursor cursor = {NULL};
    struct bytes key;
    if (tree_is_null(given)) given = NULL;
    if (given && tree_kind(given) != TREE_OBJECT)
        return wrong_type(session, "chat_template_kwargs", "an object", given);
    if (tree_kind(request->root) != TREE_OBJECT)
        return error_set(&session->error, STATUS_INVALID, "the request is %s, expected an object",
                         tree_name(request->root));
    if (!messages || tree_kind(messages) != TREE_ARRAY)
        return wrong_type(session, "messages", "an array", messages);
    while (tree_next_member(given, &cursor, &key, &member))
        count++;
    request->variables = arena_take(&session->arena, (count + 1) * sizeof *request->variables);
    if (!request->variables) return template_no_memory(session);
    for (size_t i = 0; i < source->token_count; i++)
        request->variables[request->variable_count++] = source->tokens[i];
    enum status status = template_add_list(session, request, "messages");
    if (!status) status = template_add_list(session, request, "tools");
    if (!status) status = template_add_list(session, request, "documents");
    if (!status) status = template_add_prompts(session, request);
    if (!status) status = template_add_token(session, request, "bos_token");
    if (!status) status = template_add_token(session, request, "eos_token");
    return status ? status : template_add_given(session, request, given);
}

/* ---- one request ---- */

/* Chooses the template: the request's own (--jsonl) or the model's. If the model has two, requests
 * with tools use the one for tools. */
static enum status choose_program(struct template_session *session, const struct tree *root,
                                  const struct jinja_program **out) {
    const struct tree *own = tree_member(root, "template"), *tools = tree_member(root, "tools");
    const struct chat_source *source = &session->chat.chat_template.source;
    struct bytes text;
    if (session->values.jsonl && tree_get_string(own, &text))
        return jinja_compile(&session->arena, text, "template", out, &session->error);
    *out = tools && !tree_is_null(tools) ? source->with_tools : source->usual;
    if (*out) return STATUS_OK;
    return error_set(&session->error, STATUS_UNSUPPORTED, "this model has no chat template");
}

static int64_t now_of(const struct template_session *session) {
    return session->values.time ? (int64_t)session->values.time : (int64_t)time(NULL);
}

/* Renders as `transformers` does. */
static enum status render_alone(struct template_session *session, struct bytes json,
                                struct jinja_rendering *out) {
    struct template_request request = {0};
    const struct jinja_program *program = NULL;
    arena_clear(&session->arena);
    enum status status =
        tree_parse(&session->arena, json, "the request", &request.root, &session->error);
    if (!status) status = choose_program(session, request.root, &program);
    if (!status) status = read_variables(session, &request);
    if (!status)
        status =
            jinja_render(program, request.variables, request.variable_count, &jinja_limits_usual,
                         now_of(session), &session->arena, out, &session->error);
    return status;
}

/* Renders as a server does. */
static enum status render_served(struct template_session *session, struct bytes json,
                                 struct jinja_rendering *out) {
    const char *api = session->values.api;
    struct chat_rendering rendering;
    struct chat_prompt_source source = {
        .chat_template = &session->chat.chat_template,
        .tokenizer = session->words.tokenizer,
        .api = !strcmp(api, "messages")    ? CHAT_PROMPT_MESSAGES
               : !strcmp(api, "responses") ? CHAT_PROMPT_RESPONSES
               : !strcmp(api, "ollama")    ? CHAT_PROMPT_OLLAMA
                                           : CHAT_PROMPT_CHAT,
        .agent_habits = !strcmp(session->values.agent_habits, "on"),
        .unix_time = now_of(session),
    };
    enum status status =
        chat_prompt_of_body(&source, json, &session->arena, &rendering, &session->error);
    if (!status)
        *out = (struct jinja_rendering){.text = rendering.text,
                                        .data = rendering.contents,
                                        .data_count = rendering.content_count};
    return status;
}

static enum status template_print_ids(struct template_session *session,
                                      const struct jinja_rendering *rendering) {
    struct plain_text plain = {rendering->data, rendering->data_count};
    const struct model_prompt *prompt = &session->prompt;
    enum status status =
        model_prompt_text(&session->prompt, rendering->text, plain, &session->error);
    for (size_t i = 0; !status && i < prompt->token_count; i++)
        printf("%s%" PRIu32, i ? " " : "", prompt->tokens[i]);
    if (!status) putchar('\n');
    return status;
}

static enum status template_run_one(struct template_session *session, const char *path) {
    struct bytes json = {NULL, 0};
    struct jinja_rendering rendering;
    enum status status = strcmp(path, "-") == 0
                             ? command_read_input(&json, &session->error)
                             : file_take(path, REQUEST_BYTES_MAX, &json, &session->error);
    if (!status)
        status = session->values.template ? render_alone(session, json, &rendering)
                                          : render_served(session, json, &rendering);
    if (!status && session->values.tokens)
        status = model_prompt_open(&session->prompt, &session->words, rendering.text.count + 1,
                                   &session->error);
    if (!status && session->values.tokens) status = template_print_ids(session, &rendering);
    if (!status && !session->values.tokens)
        fwrite(rendering.text.data, 1, rendering.text.count, stdout);
    free((void *)(uintptr_t)json.data);
    return status;
}

/* ---- lines of JSON ---- */

static void print_member(const char *name, struct bytes text) {
    struct json_print print = json_print_begin(true);
    json_print_string(&print, name, text);
    json_print_close(&print);
}

static enum status template_run_line(void *context, struct bytes line) {
    struct template_session *session = context;
    struct jinja_rendering rendering;
    if (render_alone(session, line, &rendering))
        print_member("error", bytes_of(session->error.text));
    else
        print_member("text", rendering.text);
    return STATUS_OK;
}

/* ---- the command ---- */

static enum status template_session_open(struct template_session *session) {
    const struct template_values *values = &session->values;
    const char *model = values->model;
    enum status status = STATUS_OK;
    bool alone = values->template || values->jsonl; /* needs no model */
    struct template_choice choice = {
        .chat_template = alone ? values->template : values->chat_template,
        .brings_tools = !alone && !strcmp(values->tools_template, "auto")};
    if (model || !alone || values->tokens)
        status = model_run_directory(values->model, &model, &session->error);
    if (!status)
        status = model_text_open_template(alone && !values->model ? NULL : model, &choice,
                                          &session->chat, &session->error);
    if (!status && (!alone || values->tokens)) {
        status = model_text_open_tokenizer(model, &session->words, &session->error);
        if (status == STATUS_NOT_FOUND && !values->tokens) status = STATUS_OK;
    }
    session->memory = lazy_memory_take(ARENA_BYTES);
    if (!status && !session->memory.start) status = template_no_memory(session);
    if (!status) arena_over(&session->arena, session->memory.start, session->memory.bytes);
    return status;
}

static void template_session_close(struct template_session *session) {
    model_prompt_close(&session->prompt);
    model_text_close(&session->words);
    model_text_close(&session->chat);
    lazy_memory_free(&session->memory);
}

static int list_builtins(void) {
    for (size_t i = 0; i < BUILTIN_TEMPLATE_COUNT; i++) {
        struct builtin_template builtin = builtin_template_at(i);
        printf("%-18s %s\n", builtin.name, builtin.about);
    }
    return EXIT_SUCCESS;
}

int program_template(void *given, const struct option_result *result) {
    struct template_session session = {0};
    int exit_code;
    session.values = *(const struct template_values *)given;
    if (session.values.list) return list_builtins();
    if (session.values.jsonl && (result->positional_count > 0 || session.values.tokens))
        return command_misused("--jsonl takes its requests from standard input, and gives texts");
    if (!session.values.jsonl && result->positional_count == 0)
        return command_misused("REQUEST.json is missing");
    enum status status = template_session_open(&session);
    if (!status)
        status = session.values.jsonl
                     ? command_read_lines(template_run_line, &session, &session.error)
                     : template_run_one(&session, result->positional[0]);
    exit_code = command_end(status, &session.error);
    template_session_close(&session);
    return exit_code;
}
