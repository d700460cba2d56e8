/* SPDX-License-Identifier: Apache-2.0
 * Writing answers in the words of the OpenAI and DeepSeek APIs: whole JSON bodies, and the events
 * of a stream (server-sent events: "data: {json}\n\n", comments ": text\n\n", at last "data:
 * [DONE]\n\n").
 *
 * In chats the reasoning is told apart as DeepSeek does: message.reasoning_content; in a stream's
 * deltas `content` is null while reasoning comes and `reasoning_content` is null while the answer
 * comes. Usage counts hits and misses of the prompt cache under DeepSeek's names.
 */
#ifndef SERVING_GATEWAY_API_API_RESPONSE_H
#define SERVING_GATEWAY_API_API_RESPONSE_H

#include "contract/ids.h"
#include "serving/gateway/api/answer_text.h"
#include "serving/gateway/api/api_request.h"
#include "serving/gateway/api/api_tokens.h"

/* What every answer to one request says about itself. */
struct api_answer {
    enum api_endpoint endpoint;
    bool include_usage; /* a stream's chunks carry "usage" (null, but for the last) */
    bool token_ids;     /* wanted, or all there is: without a tokenizer answers are ids */
    bool logprobs;
    const struct tokenizer *tokenizer; /* NULL: none */
    struct request_id id;
    int64_t created; /* unix seconds */
    struct bytes model;
    struct bytes fingerprint;
};

struct api_usage {
    uint32_t prompt_tokens;
    uint32_t prompt_hit_tokens;
    uint32_t completion_tokens;
    uint32_t reasoning_tokens;
    uint32_t drafts_made, drafts_right; /* tokens guessed ahead, and those that were right */
};

/* One of the answers to a request; its index is its place among them. */
struct api_choice {
    const struct answer_text *text;
    const struct token_list *echoed; /* of the prompt; empty unless they are to be told */
    const struct token_list *tokens; /* empty unless ids or log probabilities are wanted */
    const char *finish;              /* "stop", "length", "insufficient_system_resource" */
};

void api_response_whole(struct json_writer *writer, const struct api_answer *answer,
                        const struct api_choice *choices, size_t choice_count,
                        const struct api_usage *usage);

/* The first event of a chat's choice: says whose turn it is. Completions have none. */
void api_response_role(struct json_writer *writer, const struct api_answer *answer, uint32_t choice,
                       bool in_reasoning);

struct api_piece { /* of a choice, in a stream */
    enum token_stream_part part;
    struct bytes text;
    const struct token_list *echoed; /* NULL: none of the prompt's */
    const struct token_list *tokens; /* NULL: none are told */
    uint32_t from, to;               /* of tokens */
};

void api_response_delta(struct json_writer *writer, const struct api_answer *answer,
                        uint32_t choice, const struct api_piece *piece);

/* The last event of a choice. */
void api_response_finish(struct json_writer *writer, const struct api_answer *answer,
                         uint32_t choice, const char *finish);

/* The last events of all: usage if it was asked for, the receipt (JSON; empty: none), [DONE]. */
void api_response_done(struct json_writer *writer, const struct api_answer *answer,
                       const struct api_usage *usage, struct bytes receipt);

/* A stream that has begun and then fails without an answer. */
void api_response_failed(struct json_writer *writer, const struct api_error *error);

#define API_RESPONSE_KEEP_ALIVE ": keep-alive\n\n"

/* {"object":"list",...}, and one model alone. */
void api_response_models(struct json_writer *writer, struct bytes model, int64_t created);
void api_response_model(struct json_writer *writer, struct bytes model, int64_t created);

#endif
