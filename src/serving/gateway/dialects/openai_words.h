/* SPDX-License-Identifier: Apache-2.0
 * JSON that answers of OpenAI's chats and completions share, with DeepSeek's fields for
 * prefix-cache hits: the head of objects, usage, the end of choices and streams, and the list of
 * models.
 */
#pragma once

#include "serving/gateway/api/dialect.h"

#define OPENAI_WORDS_KEEP_ALIVE "\n"               /* ends the comment */
#define OPENAI_WORDS_FRAME_BYTES ((size_t)4 << 10) /* includes model and fingerprint, escaped */

struct openai_words_form {                 /* the differences between the two APIs */
    const char *id_prefix, *whole, *chunk; /* e.g. "chatcmpl"; values of "object" */
    void (*write_logprobs)(struct json_writer *writer, const struct tokenizer *tokenizer,
                           const struct token_list *echoed, const struct token_list *tokens,
                           uint32_t from, uint32_t to);
};

/* Returns "stop", "length", "tool_calls" or "insufficient_system_resource". */
const char *openai_words_finish(enum api_finish finish);

/* Writes a whole answer: {"id":…,"choices":[, each choice, usage. `write` writes the part of a
 * choice that the APIs do not share. */
void openai_words_whole(struct json_writer *writer, const struct openai_words_form *form,
                        const struct api_answer *answer, const struct api_choice *choices,
                        size_t choice_count, const struct api_usage *usage,
                        void (*write)(struct json_writer *writer, const struct api_answer *answer,
                                      const struct api_choice *choice));

/* Write a chunk's event around the caller's JSON. `piece` NULL: it reports no tokens. */
void openai_words_chunk_begin(struct json_writer *writer, const struct openai_words_form *form,
                              const struct api_answer *answer, uint32_t choice);
void openai_words_chunk_end(struct json_writer *writer, const struct openai_words_form *form,
                            const struct api_answer *answer, const struct api_piece *piece,
                            enum api_finish finish);

/* Writes a chunk that reports the progress of a prompt, as llama.cpp's server does. `piece` is the
 * JSON of choice 0: an empty delta or text. */
void openai_words_progress(struct json_writer *writer, const struct openai_words_form *form,
                           const struct api_answer *answer, const struct api_progress *progress,
                           const char *piece);

/* Writes the last events of a stream: usage and the receipt if they were asked for, and [DONE]. */
void openai_words_done(struct json_writer *writer, const struct openai_words_form *form,
                       const struct api_answer *answer, const struct api_usage *usage,
                       struct bytes receipt);

/* Ends a stream that fails after it has begun. */
void openai_words_failed(struct json_writer *writer, const struct api_error *error);

/* Write one model, or {"object":"list",...} of all names. `tokens_max` 0: unknown. */
void openai_words_model(struct json_writer *writer, struct bytes name, int64_t created,
                        uint64_t tokens_max);
void openai_words_models(struct json_writer *writer, const struct api_model *models, size_t count,
                         int64_t created, uint64_t tokens_max);
