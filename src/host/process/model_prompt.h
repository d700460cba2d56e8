/* SPDX-License-Identifier: Apache-2.0
 * Converts conversations and texts to the tokens of a prompt, with the chat template and the
 * tokenizer, for commands that run a model without a server. Memory is allocated once. In a server
 * the gateway does this.
 */
#pragma once

#include "host/process/model_text.h"

struct model_prompt {
    const struct model_text *text;
    size_t text_bytes_max;
    struct tokenizer_scratch *scratch;
    struct arena arena; /* cleared by every prompt */
    uint32_t *tokens;   /* of the latest prompt */
    size_t token_count;
    enum token_stream_mode stream; /* how the answer to it starts */
    struct lazy_memory memory, arena_memory;
};

/* One message of a chat, valid UTF-8. */
struct chat_turn {
    const char *role;
    struct bytes content;
};

/* For prompts of at most text_bytes_max bytes. `text` has a tokenizer and is kept. */
enum status model_prompt_open(struct model_prompt *prompt, const struct model_text *text,
                              size_t text_bytes_max, struct error *error) MUST_USE;
void model_prompt_close(struct model_prompt *prompt);

/* Renders a conversation with the checkpoint's chat template, up to the start of the answer.
 * `specials`: special tokens in turns are recognized. STATUS_TOO_LARGE: the prompt is too long. */
enum status model_prompt_turns(struct model_prompt *prompt, const struct chat_turn *turns,
                               size_t turn_count, bool specials, struct error *error) MUST_USE;

/* framed: a completion's prompt, a text in which special tokens are recognized, in the tokenizer's
 * frame. text: a text as it is. */
enum status model_prompt_framed(struct model_prompt *prompt, struct bytes text,
                                struct error *error) MUST_USE;
enum status model_prompt_text(struct model_prompt *prompt, struct bytes text,
                              struct plain_text plain, struct error *error) MUST_USE;
