/* SPDX-License-Identifier: Apache-2.0
 * Writes answers of Ollama's API. A stream is lines of JSON: one for each piece of text, one for
 * each call once its arguments are whole, since they are an object, and a last one with the counts
 * and times of the answer.
 */
#pragma once

#include "serving/gateway/api/dialect.h"

#define OLLAMA_WORDS_KEEP_ALIVE " " /* white space before the next line; empty lines are no JSON */
#define OLLAMA_WORDS_FRAME_BYTES ((size_t)4 << 10) /* includes the model's name, escaped */
#define OLLAMA_WORDS_REPEATS 1                     /* the arguments of calls */

void ollama_words_whole(struct json_writer *writer, const struct api_answer *answer,
                        const struct api_choice *choices, size_t choice_count,
                        const struct api_usage *usage);
void ollama_words_event(struct json_writer *writer, const struct api_answer *answer,
                        struct dialect_place *place, const struct api_event *event);
/* Write the answer to a request that only loads the model. */
void ollama_words_loaded(struct json_writer *writer, uint32_t prompt_tokens);
void ollama_words_loaded_text(struct json_writer *writer, uint32_t prompt_tokens);
void ollama_words_error(struct json_writer *writer, const struct api_error *error);

struct ollama_models { /* what is listed about the model */
    const struct api_model *models;
    uint32_t count;
    int64_t created;      /* Unix seconds */
    const char *model_id; /* [32] bytes of the checkpoint's SHA-256 */
    uint64_t tokens_max;  /* limit of prompt and answer together; 0: unknown */
    bool thinks, calls;   /* it can think; it can call tools */
};

/* Write the list of /api/tags, and the object of /api/show. */
void ollama_words_tags(struct json_writer *writer, const struct ollama_models *listed);
void ollama_words_show(struct json_writer *writer, const struct ollama_models *listed);
