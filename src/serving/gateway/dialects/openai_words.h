/* SPDX-License-Identifier: Apache-2.0
 * JSON shared by answers of OpenAI's chats and completions, with DeepSeek's fields for the cache:
 * the head of every object, usage, the end of every choice, the end of every stream, the list of
 * models.
 */
#pragma once

#include "serving/gateway/api/dialect.h"

#define OPENAI_WORDS_KEEP_ALIVE ": keep-alive\n\n"
#define OPENAI_WORDS_FRAME_BYTES ((size_t)4 << 10) /* model and fingerprint are escaped */

struct openai_words_form {                 /* of one API */
    const char *id_prefix, *whole, *chunk; /* "chatcmpl", and values of "object" */
    void (*write_logprobs)(struct json_writer *writer, const struct tokenizer *tokenizer,
                           const struct token_list *echoed, const struct token_list *tokens,
                           uint32_t from, uint32_t to);
};

/* "stop", "length", "tool_calls", "insufficient_system_resource". */
const char *openai_words_finish(enum api_finish finish);

/* {"id":…,"choices":[, then *write* for each choice up to its rest, then usage. */
void openai_words_whole(struct json_writer *writer, const struct openai_words_form *form,
                        const struct api_answer *answer, const struct api_choice *choices,
                        size_t choice_count, const struct api_usage *usage,
                        void (*write)(struct json_writer *writer, const struct api_answer *answer,
                                      const struct api_choice *choice));

/* A chunk's event around the caller's JSON. `piece` NULL: it reports no tokens. */
void openai_words_chunk_begin(struct json_writer *writer, const struct openai_words_form *form,
                              const struct api_answer *answer, uint32_t choice);
void openai_words_chunk_end(struct json_writer *writer, const struct openai_words_form *form,
                            const struct api_answer *answer, const struct api_piece *piece,
                            enum api_finish finish);

/* The last events of the stream: usage if it was asked for, the receipt, [DONE]. */
void openai_words_done(struct json_writer *writer, const struct openai_words_form *form,
                       const struct api_answer *answer, const struct api_usage *usage,
                       struct bytes receipt);

/* Ends a stream that has begun and then fails without an answer. */
void openai_words_failed(struct json_writer *writer, const struct api_error *error);

/* One model, and {"object":"list",...} of its names. `tokens_max` 0: unknown. */
void openai_words_model(struct json_writer *writer, struct bytes name, int64_t created,
                        uint64_t tokens_max);
void openai_words_models(struct json_writer *writer, const struct api_model *models, size_t count,
                         int64_t created, uint64_t tokens_max);
