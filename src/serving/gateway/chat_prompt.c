/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/gateway/chat_prompt.h"

#include "serving/gateway/dialects/anthropic_dialect.h"
#include "serving/gateway/dialects/chat_dialect.h"
#include "serving/gateway/dialects/ollama_dialect.h"
#include "serving/gateway/dialects/responses_dialect.h"
#include "serving/gateway/models.h"

void chat_prompt_defaults(const struct chat_template *chat_template,
                          struct api_defaults *defaults) {
    defaults->chat_template = chat_template;
    if (!chat_template) return;
    defaults->calls = chat_template->calls;
    defaults->thought = chat_template->thought;
    defaults->prints_tools = chat_template->prints_tools;
    defaults->reads_documents = chat_template->reads_documents;
}

enum status chat_prompt_render(const struct chat_template *chat_template,
                               const struct api_request *parsed, int64_t unix_time,
                               struct arena *arena, struct chat_rendering *out,
                               struct error *error) {
    struct chat_ask ask = {
        .messages = parsed->messages,
        .tools = parsed->tools,
        .documents = parsed->documents,
        .variables = parsed->variables,
        .thinking = parsed->thinking,
        .effort = parsed->effort,
        .prompts = parsed->opens_turn,
        .continues = parsed->continues,
        .unix_time = unix_time,
    };
    return chat_template_render(chat_template, &ask, arena, out, error);
}

enum status chat_prompt_of_body(const struct chat_prompt_source *source, struct bytes body,
                                struct arena *arena, struct chat_rendering *out,
                                struct error *error) {
    static const struct dialect *const dialects[] = {[CHAT_PROMPT_CHAT] = &chat_dialect,
                                                     [CHAT_PROMPT_MESSAGES] = &anthropic_dialect,
                                                     [CHAT_PROMPT_RESPONSES] = &responses_dialect,
                                                     [CHAT_PROMPT_OLLAMA] = &ollama_chat_dialect};
    struct models models;
    struct api_request parsed;
    struct api_error refusal;
    enum status status = models_open(&models, BYTES_LITERAL("default"),
                                     models_thought(source->chat_template), error);
    if (status) return status;
    struct api_defaults defaults = {.models = models.names,
                                    .model_count = models.count,
                                    .any_model = true,
                                    .agent_habits = source->agent_habits,
                                    .tokenizer = source->tokenizer};
    chat_prompt_defaults(source->chat_template, &defaults);
    if (!api_request_parse(arena, dialects[source->api], body, &defaults, &parsed, &refusal))
        return error_set(error, STATUS_INVALID, "%s", refusal.message);
    return chat_prompt_render(source->chat_template, &parsed, source->unix_time, arena, out, error);
}
