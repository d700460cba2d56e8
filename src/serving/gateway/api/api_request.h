/* SPDX-License-Identifier: Apache-2.0
 * The inner request: a parsed and fully validated body, independent of the dialect. It takes no
 * memory of the gateway yet. The table in serving/gateway/api/api_field.h defines for each field
 * whether it is read, ignored or refused by name. A field without a row is reported to the client
 * in a warning.
 *
 * A body with more JSON values than any sensible request has (base/limits.h) is refused before it
 * is parsed, because parsing would delay all other requests.
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
#define API_MODEL_NAME_BYTES_MAX 256

struct api_prompt { /* one prompt, as text or as token ids */
    struct bytes text;
    const uint32_t *tokens; /* [token_count]; NULL: the prompt is text */
    size_t token_count;
};

/* The constraint of the answer's text. */
struct api_constraint {
    struct bytes form; /* the form as JSON (serving/grammar/rules/form.h); empty: unconstrained */
    struct bytes at;   /* the added token after which it applies; empty: from the content's start */
    const char *field; /* the API field that set it, for errors; a literal */
};

struct api_request {
    const struct dialect *dialect; /* dialect of the request and its answer */
    uint32_t model;                /* index in api_defaults.models */
    struct bytes model_asked;      /* the name that the client gave the model; empty: none */
    /* Chats: a checked array in the format of OpenAI's chat API, never empty. */
    const struct tree *messages;
    const struct tree *tools;     /* array in the format of OpenAI's chat API; NULL: none */
    const struct tree *documents; /* an array; NULL: none */
    const struct tree *variables; /* object of variables of the chat template; NULL: none */
    enum chat_thinking thinking;
    const char *thinking_field; /* the field that set `thinking`; NULL: the model's name, or none */
    struct bytes effort;        /* reasoning_effort; empty: not given */
    bool opens_turn;            /* the prompt ends with the start of an assistant's turn */
    bool continues;             /* the answer continues the last message, an assistant's */
    /* Prompts. */
    const struct api_prompt *prompts; /* [prompt_count]; all are texts or all are token ids */
    uint32_t prompt_count;            /* 1 for a chat */
    bool tokens_only;                 /* only tokenize: the answer is the prompt's tokens */
    bool special_tokens;              /* include the tokens that the tokenizer adds around a text */
    struct bytes suffix;              /* text after the answer (fill-in-the-middle); empty: none */

    struct sampling sampling; /* `seed` is set only if has_seed */
    bool has_seed;
    uint32_t new_tokens_max;          /* 0: not given, or prompt_only */
    bool prompt_only;                 /* generate no tokens after the prompt */
    const struct stop_strings *stops; /* NULL: none */
    bool stream;
    bool include_usage; /* stream_options.include_usage */
    bool echo;          /* the answer begins with the prompt */
    bool ignore_eos;
    bool return_token_ids;
    bool return_receipt;
    bool return_progress;
    struct bytes cache_salt, user_id; /* empty: none; each narrows the set of requests that share
                                       * KV blocks */
    uint32_t choice_count;            /* n, at least 1: answers to each prompt */
    const struct token_bias *biases;
    uint32_t bias_count;
    const uint32_t *stop_tokens; /* stop_token_ids */
    uint32_t stop_token_count;
    bool strict_order; /* object keys must follow the order of the schema */
    struct api_constraint constraint;
    struct tool_aliases aliases;
    bool seals_reasoning;  /* for struct api_answer */
    bool one_call;         /* the answer ends after its first call */
    struct bytes reported; /* for struct api_answer */
    struct bytes warning;  /* one line of visible ASCII for the client; empty: none */
    uint32_t left_out;     /* bit (1 << enum agent_habit) for each that the body had */
};

/* A name by which clients may ask for the model. */
struct api_model {
    struct bytes name;
    enum chat_thinking thinking; /* the thinking mode if no field sets it */
};

struct api_defaults {
    struct sampling sampling;
    const struct api_model *models; /* [model_count]; "default" is the first one */
    uint32_t model_count;
    bool any_model;                    /* any other name means the first model, too */
    bool agent_habits;                 /* leave out what no model reads (agent_habits.h) */
    uint64_t tokens_max;               /* limit of prompts of token ids; 0: LIMIT_CONTEXT */
    enum chat_thought thought;         /* the thinking modes that the chat template supports */
    bool prints_tools;                 /* the template prints tools */
    bool reads_documents;              /* the template prints documents */
    enum tool_format calls;            /* the model's format of tool calls */
    const struct tokenizer *tokenizer; /* NULL: none */
    const struct chat_template *chat_template; /* NULL: none */
};

/* Parses the body as the reader's `root`. The caller has set the other members. */
bool api_request_open(struct api_reader *reader, struct bytes body);

/* Parses a body. All of *out is in `arena` (about 12 bytes per byte of body). False: *error is
 * set. */
bool api_request_parse(struct arena *arena, const struct dialect *dialect, struct bytes body,
                       const struct api_defaults *defaults, struct api_request *out,
                       struct api_error *error);
