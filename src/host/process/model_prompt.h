/* SPDX-License-Identifier: Apache-2.0
 * Conversations and texts as the tokens of a prompt, for commands that run a model alone: through
 * the chat template and the tokenizer, in memory that is taken once. (A server's prompts are
 * rendered by its gateway.)
 */
#ifndef HOST_PROCESS_MODEL_PROMPT_H
#define HOST_PROCESS_MODEL_PROMPT_H

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

/* A conversation through the checkpoint's chat template, up to where the answer starts; special
 * tokens in what is said are recognized if `specials`. `messages`: in the shape of OpenAI's chat
 * API. STATUS_TOO_LARGE: the prompt is too long. */
enum status model_prompt_messages(struct model_prompt *prompt, const struct tree *messages,
                                  bool specials, struct error *error) MUST_USE;
enum status model_prompt_turns(struct model_prompt *prompt, const struct chat_turn *turns,
                               size_t turn_count, bool specials, struct error *error) MUST_USE;

/* A text as it stands, and what a completion's prompt has: the tokenizer's frame around a text in
 * which special tokens are recognized. */
enum status model_prompt_framed(struct model_prompt *prompt, struct bytes text,
                                struct error *error) MUST_USE;
enum status model_prompt_text(struct model_prompt *prompt, struct bytes text,
                              struct plain_text plain, struct error *error) MUST_USE;

#endif
