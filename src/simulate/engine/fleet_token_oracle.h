/* SPDX-License-Identifier: Apache-2.0
 * The language that simulated engines use in chats. It has a vocabulary (all bytes, and words for
 * the special tokens and parts of tool calls), a chat template that prints tools, and rules in
 * which the last token alone determines the allowed next tokens. Tool calls are frequent and mostly
 * well-formed; some break off. There is one language for each format of tool calls
 * (serving/text/tool_format.h). All use the same token ids with different texts, so the engine does
 * not depend on the language.
 *
 * The module also computes the expected text of an answer, by decoding all its tokens with one
 * token stream.
 */
#pragma once

#include "base/arena.h"
#include "serving/text/chat_template.h"

#define FLEET_SPEAKS ((uint64_t)1 << 20) /* runs with this seed or a larger one use the language */

enum { FLEET_SPEECH_BYTES = 6 << 10, FLEET_TONGUES = 3 };

struct fleet_token_oracle {
    struct tokenizer *tokenizer; /* NULL: prompts and answers are token ids, not text */
    struct chat_template chat_template;
    const struct tool_set *tools;
};

/* Opens one of the FLEET_TONGUES languages. Returns false if the arena is out of memory. */
bool fleet_token_oracle_open(struct fleet_token_oracle *token_oracle, struct arena *arena,
                             uint32_t which);
void fleet_token_oracle_close(struct fleet_token_oracle *token_oracle);

/* The value of "tools" in requests: a JSON array. */
extern const char fleet_token_oracle_tools[];

/* The token after `last`, chosen by `number`. It is the stop token only if may_stop is true. */
uint32_t fleet_token_oracle_follow(uint64_t number, uint32_t last, uint32_t stop_token,
                                   bool may_stop);

/* The token of a byte, and whether a token represents a byte. */
uint32_t fleet_token_oracle_byte(char byte);
bool fleet_token_oracle_is_byte(uint32_t token, char *byte_out);

/* Writes the tokens of a chat with one message, as the template renders it. `content` consists of
 * letters. `tokens_out` needs space for one token per byte and FLEET_TOKEN_ORACLE_FRAME more.
 * Returns the number of tokens. */
enum { FLEET_TOKEN_ORACLE_FRAME = 16 };
uint32_t fleet_token_oracle_prompt(const char *content, bool with_tools, uint32_t *tokens_out);

/* The content and the tool calls of an answer. A call is stored as '\1', its id if the model wrote
 * one, '\2', its name, '\3', and its arguments. */
struct fleet_speech {
    char content[FLEET_SPEECH_BYTES], calls[FLEET_SPEECH_BYTES];
    uint32_t content_bytes, calls_bytes, call_count;
    bool one_call; /* the answer must end where a second call begins */
    bool ended;    /* the answer ended there */
};

/* Decodes the tokens into `speech`, which must be empty except for one_call. Returns the number of
 * tokens that belong to the answer. */
uint32_t fleet_token_oracle_listen(const struct fleet_token_oracle *token_oracle, bool with_tools,
                                   const uint32_t *tokens, uint32_t count,
                                   struct fleet_speech *speech);
