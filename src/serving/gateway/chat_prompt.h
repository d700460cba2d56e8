/* SPDX-License-Identifier: Apache-2.0
 * A chat's prompt from its request: what a request's reader must know of the chat template, and the
 * rendering of what it read. The gateway and `fathom template` use the same functions, so both
 * compute the same bytes.
 */
#pragma once

#include "serving/gateway/api/api_request.h"
#include "serving/text/chat_template.h"

/* Sets the members that depend on the chat template; NULL: there is none. */
void chat_prompt_defaults(const struct chat_template *chat_template, struct api_defaults *defaults);

/* Renders a request. Errors as in chat_template_render. */
enum status chat_prompt_render(const struct chat_template *chat_template,
                               const struct api_request *parsed, int64_t unix_time,
                               struct arena *arena, struct chat_rendering *out,
                               struct error *error) MUST_USE;

/* The APIs that have chats. */
enum chat_prompt_api {
    CHAT_PROMPT_CHAT,
    CHAT_PROMPT_MESSAGES,
    CHAT_PROMPT_RESPONSES,
    CHAT_PROMPT_OLLAMA
};

struct chat_prompt_source {
    const struct chat_template *chat_template;
    const struct tokenizer *tokenizer; /* NULL: none */
    enum chat_prompt_api api;
    bool agent_habits; /* as in struct gateway_options */
    int64_t unix_time; /* for strftime_now */
};

/* Renders the body of a request as a gateway does that serves any model name. The result is in
 * `arena`. STATUS_INVALID: *error has the message of the gateway's refusal. */
enum status chat_prompt_of_body(const struct chat_prompt_source *source, struct bytes body,
                                struct arena *arena, struct chat_rendering *out,
                                struct error *error) MUST_USE;
