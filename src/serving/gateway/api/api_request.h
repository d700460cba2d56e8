/* SPDX-License-Identifier: Apache-2.0
 * The inner request: a parsed body, independent of the dialect. All of a body is checked here,
 * before the request takes any memory of the gateway. One table (serving/gateway/api/api_field.h)
 * defines for each field whether it is read, ignored or refused by name. A field without a row is
 * reported to the client in a warning.
 *
 * A body with more parts than any sensible request has (base/limits.h) is refused before it is
 * parsed, because parsing would delay all other requests.
 */
#pragma once

#include "base/tree.h"
#include "contract/sampling.h"
#include "serving/gateway/api/api_error.h"
#include "serving/gateway/api/tool_alias.h"
#include "serving/text/chat_template.h"
#include "serving/text/token_stream.h"

struct api_reader;
struct dialect;

#define API_WARNING_BYTES_MAX 256

struct api_prompt { /* text, or token ids */
    struct bytes text;
    const uint32_t *tokens; /* [token_count]; NULL: it is text */
    size_t token_count;
};

/* The constraint of the answer's text. */
struct api_constraint {
    struct bytes
        form;        /* a FORM as JSON (serving/grammar/rules/form.h); empty: the answer is free */
    struct bytes at; /* the added token after which it applies; empty: from the content's start */
    const char *field; /* the field it came from, a literal, for errors: "response_format" */
};

struct api_request {
    const struct dialect *dialect; /* of the request and its answer */
    uint32_t model;                /* index in api_defaults.models */
    /* A chat: an array in the format of OpenAI's chat API, checked, and never empty. */
    const struct tree *messages;
    const struct tree *tools;     /* an array in that format; NULL: none */
    const struct tree *documents; /* an array; NULL: none */
    const struct tree *variables; /* of the chat template: an object; NULL: none */
    enum chat_thinking thinking;
    const char *thinking_field; /* the field that set it; NULL: none, or the model's name */
    struct bytes effort;        /* reasoning_effort; empty: not given */
    bool opens_turn;            /* the prompt ends with the start of an assistant's turn */
    bool continues;             /* the answer continues the last message, which is an assistant's */
    /* plain */
    const struct api_prompt *prompts; /* [prompt_count], all texts or all token ids */
    uint32_t prompt_count;            /* a chat is one */
    bool tokens_only;                 /* the answer is the prompt's tokens */
    bool special_tokens;              /* with those that the tokenizer adds around it */
    struct bytes suffix;              /* the text after the answer; empty: unknown */

    struct sampling sampling; /* seed only if has_seed */
    bool has_seed;
    uint32_t new_tokens_max;          /* 0: not given, or prompt_only */
    bool prompt_only;                 /* no token follows the prompt */
    const struct stop_strings *stops; /* NULL: none */
    bool stream;
    bool include_usage; /* stream_options.include_usage */
    bool echo;          /* the answer begins with the prompt */
    bool ignore_eos;
    bool return_token_ids;
    bool return_receipt;
    struct bytes cache_salt, user_id; /* empty: none; both limit the requests that share cached
                                       * blocks */
    uint32_t choice_count;            /* n, at least 1: answers to each prompt */
    const struct token_bias *biases;
    uint32_t bias_count;
    const uint32_t *stop_tokens; /* stop_token_ids */
    uint32_t stop_token_count;
    bool strict_order; /* keys follow the order of the schema */
    struct api_constraint constraint;
    struct tool_aliases aliases;
    bool seals_reasoning;  /* for struct api_answer */
    bool one_call;         /* the answer ends after its first call */
    struct bytes reported; /* for struct api_answer */
    struct bytes warning;  /* one line of visible ASCII for the client; empty: none */
};

/* A name of the model that clients may use. */
struct api_model {
    struct bytes name;
    enum chat_thinking thinking; /* the mode if no field sets it */
};

struct api_defaults {
    struct sampling sampling;
    const struct api_model *models; /* [model_count]; "default" is the first one */
    uint32_t model_count;
    uint64_t tokens_max;               /* a longer prompt of ids is not read; 0: LIMIT_CONTEXT */
    enum chat_thought thought;         /* the thinking that the chat template supports */
    bool prints_tools;                 /* the template prints tools */
    bool reads_documents;              /* the template prints documents */
    enum tool_format calls;            /* the model's format of calls */
    const struct tokenizer *tokenizer; /* NULL: none */
    const struct chat_template *chat_template; /* NULL: none */
};

/* Makes the body the reader's root. The caller has set the other members. */
bool api_request_open(struct api_reader *reader, struct bytes body);

/* All of *out is in `arena` (about 12 bytes per byte of body). False: *error says why. */
bool api_request_parse(struct arena *arena, const struct dialect *dialect, struct bytes body,
                       const struct api_defaults *defaults, struct api_request *out,
                       struct api_error *error);
