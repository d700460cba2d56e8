/* SPDX-License-Identifier: Apache-2.0
 * Writing answers in the words of the OpenAI and DeepSeek APIs: whole JSON bodies, and the events
 * of a stream (server-sent events: "data: {json}\n\n", comments ": text\n\n", at last "data:
 * [DONE]\n\n").
 *
 * In chats the reasoning is told apart as DeepSeek does: message.reasoning_content; in a stream's
 * deltas `content` is null while reasoning comes and `reasoning_content` is null while the answer
 * comes. Usage counts hits and misses of the prompt cache under DeepSeek's names.
 */
#ifndef GATEWAY_API_RESPONSE_H
#define GATEWAY_API_RESPONSE_H

#include "gateway/answer_text.h"
#include "gateway/api_request.h"

/* What every answer to one request says about itself. */
struct api_answer {
    enum api_endpoint endpoint;
    bool include_usage; /* a stream's chunks carry "usage" (null, but for the last) */
    bool token_ids;     /* no tokenizer: answers are ids */
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
};

/* `finish` is "stop", "length", "insufficient_system_resource". */
void api_response_whole(struct json_writer *writer, const struct api_answer *answer,
                        const struct answer_text *text, const char *finish,
                        const struct api_usage *usage);

/* The first event of a chat: says whose turn it is. Completions have none. */
void api_response_role(struct json_writer *writer, const struct api_answer *answer,
                       bool in_reasoning);

/* A piece of the answer. */
void api_response_delta(struct json_writer *writer, const struct api_answer *answer,
                        enum token_stream_part part, struct bytes text);

/* As api_response_delta, for a checkpoint without a tokenizer. */
void api_response_token_ids(struct json_writer *writer, const struct api_answer *answer,
                            const uint32_t *tokens, size_t token_count);

/* The last events: the finish reason, usage if it was asked for, [DONE]. */
void api_response_end(struct json_writer *writer, const struct api_answer *answer,
                      const char *finish, const struct api_usage *usage);

/* A stream that has begun and then fails without an answer. */
void api_response_failed(struct json_writer *writer, const struct api_error *error);

#define API_RESPONSE_KEEP_ALIVE ": keep-alive\n\n"

/* {"object":"list",...}, and one model alone. */
void api_response_models(struct json_writer *writer, struct bytes model, int64_t created);
void api_response_model(struct json_writer *writer, struct bytes model, int64_t created);

#endif
