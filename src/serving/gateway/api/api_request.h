/* SPDX-License-Identifier: Apache-2.0
 * The inner request: what a body asks for, whatever dialect it is written in. Everything a body can
 * ask for is checked here, before the request takes any room. Each field stands in one table
 * (serving/gateway/api/api_field.h), which says whether it is read, changes nothing, or is refused
 * by name; what has no row there is told to the client in a warning.
 *
 * A body with more parts than any sensible request has (base/limits.h) is refused before it is
 * parsed: that would hold up everybody.
 */
#ifndef SERVING_GATEWAY_API_API_REQUEST_H
#define SERVING_GATEWAY_API_API_REQUEST_H

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

/* What the answer's text has to be. */
struct api_constraint {
    struct bytes form; /* a FORM as JSON (serving/grammar/form.h); empty: the answer is free */
    struct bytes at;   /* the added token that begins it; empty: the content's start */
    const char *field; /* that asked for it, a literal, for errors: "response_format" */
};

struct api_request {
    const struct dialect *dialect; /* in whose words it is asked, and answered */
    uint32_t model;                /* of api_defaults' */
    /* a chat: an array in the shape of OpenAI's chat API, checked, and never empty */
    const struct tree *messages;
    const struct tree *tools;     /* an array in that shape; NULL: none */
    const struct tree *documents; /* an array; NULL: none */
    const struct tree *variables; /* of the chat template: an object; NULL: none */
    enum chat_thinking thinking;
    const char *thinking_field; /* that asked for it; NULL: none, or the model's name */
    struct bytes effort;        /* reasoning_effort; empty: not given */
    bool opens_turn;            /* the prompt ends by saying that it is the assistant's turn */
    bool continues;             /* the last message is an assistant's, which the answer continues */
    /* plain */
    const struct api_prompt *prompts; /* [prompt_count], all texts or all token ids */
    uint32_t prompt_count;            /* a chat is one */
    bool tokens_only;                 /* the prompt's tokens are the answer */
    bool special_tokens;              /* with those that the tokenizer puts around it */
    struct bytes suffix;              /* what follows the answer; empty: nothing is known of it */

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
    struct bytes cache_salt, user_id; /* empty: none; both narrow who finds what is cached */
    uint32_t choice_count;            /* n, at least 1: answers to each prompt */
    const struct token_bias *biases;
    uint32_t bias_count;
    const uint32_t *stop_tokens; /* stop_token_ids */
    uint32_t stop_token_count;
    bool strict_order; /* keys come in the order in which a bound text's schema lists them */
    struct api_constraint constraint;
    struct tool_aliases aliases;
    bool seals_reasoning; /* for struct api_answer */
    bool one_call;        /* the answer ends with its first call */
    struct bytes told;    /* for struct api_answer */
    struct bytes warning; /* one line of visible ASCII for the client; empty: none */
};

/* A name under which the model is asked for. */
struct api_model {
    struct bytes name;
    enum chat_thinking thinking; /* what it means where no field says anything about it */
};

struct api_defaults {
    struct sampling sampling;
    const struct api_model *models; /* [model_count]; "default" is the first of them */
    uint32_t model_count;
    uint64_t tokens_max;               /* a prompt of more ids is not even read; 0: LIMIT_CONTEXT */
    enum chat_thought thought;         /* what the model's chat template can do */
    bool prints_tools;                 /* it has a place for tools */
    bool reads_documents;              /* and one for documents */
    enum tool_format calls;            /* how the model writes them */
    const struct tokenizer *tokenizer; /* NULL: none */
    const struct chat_template *chat_template; /* NULL: none */
};

/* The body becomes the reader's root. The reader has all else. */
bool api_request_open(struct api_reader *reader, struct bytes body);

/* Everything in *out lies in `arena` (about 12 bytes per byte of body). False: *error says why. */
bool api_request_parse(struct arena *arena, const struct dialect *dialect, struct bytes body,
                       const struct api_defaults *defaults, struct api_request *out,
                       struct api_error *error);

#endif
