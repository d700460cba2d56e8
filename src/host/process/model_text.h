/* SPDX-License-Identifier: Apache-2.0
 * Reads the text files of a checkpoint directory: tokenizer.json, or else tiktoken.model,
 * tokenizer_config.json (chat template, bos, eos), special_tokens_map.json (tokens missing there),
 * chat_template.jinja, which overrides the template in tokenizer_config.json, and
 * generation_config.json (sampling defaults). Each may be missing. The architecture in config.json
 * may have a built-in template for a directory that has none. Without a tokenizer a model
 * works with token ids only. A GGUF file stands for a directory with tokenizer.json,
 * tokenizer_config.json and generation_config.json, as far as it has them (gguf_text.h).
 */
#pragma once

#include "compute/weights/shape.h"
#include "contract/sampling.h"
#include "host/process/lazy_memory.h"
#include "serving/text/chat_template.h"
#include "serving/text/tokenizer.h"

struct model_text {
    struct tokenizer *tokenizer; /* NULL: none */
    struct chat_template chat_template;
    struct sampling sampling; /* the checkpoint's defaults; temperature 1 if there are none */
    uint32_t stop_tokens[LIMIT_STOP_TOKENS]; /* tokens that end an answer */
    uint32_t stop_token_count;
    struct prompt_frame frame;     /* around plain prompts */
    uint32_t bos_token, eos_token; /* UINT32_MAX: none */
    void *memory;                  /* memory of the tokenizer */
    struct lazy_memory template_memory;
};

/* The operator's choice of templates. */
struct template_choice {
    const char *chat_template; /* name of a built-in template, or a path; NULL: the checkpoint's */
    bool brings_tools;         /* a built-in one for tools, where the template has no place */
};

/* `shape` has the vocabulary, bos, and the stop tokens of config.json and generation_config.json;
 * NULL: none of them is known yet. `choice` NULL: the checkpoint's template alone. An invalid file
 * is an error, which names it. */
enum status model_text_open(const char *directory, const struct shape *shape,
                            const struct template_choice *choice, struct model_text *out,
                            struct error *error) MUST_USE;

/* The template alone, with the tokens of tokenizer_config.json. `directory` may be NULL. */
enum status model_text_open_template(const char *directory, const struct template_choice *choice,
                                     struct model_text *out, struct error *error) MUST_USE;

/* The tokenizer alone. STATUS_NOT_FOUND: there is neither file. */
enum status model_text_open_tokenizer(const char *directory, struct model_text *out,
                                      struct error *error) MUST_USE;

/* Tokenizer and special tokens, without a template and without defaults. */
enum status model_text_open_words(const char *directory, struct model_text *out,
                                  struct error *error) MUST_USE;

/* The sampling defaults alone. */
enum status model_text_read_sampling(const char *directory, struct sampling *out,
                                     struct error *error) MUST_USE;

/* Finds the tokens that end an answer, for every generator: each id of `shape` (eos_token_id of
 * config.json and of generation_config.json), and the tokenizer's eos_token, if it is a token of
 * the model. */
enum status model_text_find_stops(struct model_text *text, const struct shape *shape,
                                  struct error *error) MUST_USE;

void model_text_close(struct model_text *text);
