/* SPDX-License-Identifier: Apache-2.0
 * Reading the bodies of /chat/completions and /completions. Everything a body can ask for is
 * checked here, before the request takes any room: what we do not do is refused by name, fields
 * that change nothing about an answer (user, metadata, store, ...) and unknown fields are ignored.
 *
 * A body with more parts than any sensible request has (base/limits.h) is refused before it is
 * parsed: that would hold up everybody.
 *
 * Extensions, under vLLM's names: top_k, min_p, repetition_penalty, min_tokens, stop_token_ids,
 * ignore_eos (go on after the end-of-sentence token), return_token_ids. docs/api.md has every field
 * with its range.
 */
#ifndef SERVING_GATEWAY_API_API_REQUEST_H
#define SERVING_GATEWAY_API_API_REQUEST_H

#include "contract/sampling.h"
#include "serving/gateway/api/api_error.h"
#include "serving/text/chat_template.h"

enum api_endpoint { API_CHAT, API_COMPLETIONS };

struct api_prompt { /* text, or token ids */
    struct bytes text;
    const uint32_t *tokens; /* [token_count]; NULL: it is text */
    size_t token_count;
};

struct api_request {
    enum api_endpoint endpoint;
    /* API_CHAT */
    const struct chat_message *messages;
    size_t message_count;
    /* API_COMPLETIONS */
    const struct api_prompt *prompts; /* [prompt_count], all texts or all token ids */
    uint32_t prompt_count;            /* a chat is one */

    struct sampling sampling; /* seed only if has_seed */
    bool has_seed;
    uint32_t new_tokens_max;          /* 0: not given, or prompt_only */
    bool prompt_only;                 /* no token is to follow the prompt */
    const struct stop_strings *stops; /* NULL: none */
    bool stream;
    bool include_usage; /* stream_options.include_usage */
    bool echo;          /* the answer begins with the prompt */
    bool ignore_eos;
    bool return_token_ids;
    bool return_receipt;
    struct bytes cache_salt; /* empty: none */
    uint32_t choice_count;   /* n, at least 1: answers to each prompt */
    const struct token_bias *biases;
    uint32_t bias_count;
    const uint32_t *stop_tokens; /* stop_token_ids */
    uint32_t stop_token_count;
};

struct api_defaults {
    struct sampling sampling;
    struct bytes model_name; /* as served; "default" is always accepted too */
    uint64_t tokens_max;     /* a prompt of many more ids is not even read; 0: LIMIT_CONTEXT */
};

/* Everything in *out lies in `arena` (about 12 bytes per byte of body). False: *error says why. */
bool api_request_parse(struct arena *arena, enum api_endpoint endpoint, struct bytes body,
                       const struct api_defaults *defaults, struct api_request *out,
                       struct api_error *error);

#endif
