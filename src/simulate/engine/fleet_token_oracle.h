/* SPDX-License-Identifier: Apache-2.0
 * The language of a simulated fleet's engines in chats: a vocabulary (bytes, and words for the
 * marks and parts of calls), a chat template that prints tools, and a grammar. The last token
 * alone determines which token may come next. Calls are frequent, are mostly well-formed, and
 * sometimes break off. There are several languages, one per format of calls
 * (serving/text/tool_format.h). All have the same token ids with different texts, so the engine
 * does not depend on the language.
 *
 * The module also computes the expected answer, by pushing all its tokens through one token
 * stream.
 */
#pragma once

#include "base/arena.h"
#include "serving/text/chat_template.h"

#define FLEET_SPEAKS ((uint64_t)1 << 20) /* seeds from here on use the language */

enum { FLEET_SPEECH_BYTES = 6 << 10, FLEET_TONGUES = 3 };

struct fleet_token_oracle {
    struct tokenizer *tokenizer; /* NULL: token ids instead of text */
    struct chat_template chat_template;
    const struct tool_set *tools;
};

/* Opens one of the FLEET_TONGUES languages. Returns false if the arena is out of memory. */
bool fleet_token_oracle_open(struct fleet_token_oracle *token_oracle, struct arena *arena,
                             uint32_t which);
void fleet_token_oracle_close(struct fleet_token_oracle *token_oracle);

/* The "tools" of a request: a JSON array. */
extern const char fleet_token_oracle_tools[];

/* The token after `last`, selected by a number. It is the stop token only if may_stop. */
uint32_t fleet_token_oracle_follow(uint64_t number, uint32_t last, uint32_t stop_token,
                                   bool may_stop);

/* The token of a byte, and whether a token represents a byte. */
uint32_t fleet_token_oracle_byte(char byte);
bool fleet_token_oracle_is_byte(uint32_t token, char *byte_out);

/* Writes the tokens of a chat of one message, as the template renders it. `content` has letters
 * only. `tokens_out` has space for them and FLEET_TOKEN_ORACLE_FRAME more. Returns the number of
 * tokens. */
enum { FLEET_TOKEN_ORACLE_FRAME = 16 };
uint32_t fleet_token_oracle_prompt(const char *content, bool with_tools, uint32_t *tokens_out);

/* An answer's content and calls. A call is '\1', the model's own id if it wrote one, '\2', the
 * name, '\3', and the arguments. */
struct fleet_speech {
    char content[FLEET_SPEECH_BYTES], calls[FLEET_SPEECH_BYTES];
    uint32_t content_bytes, calls_bytes, call_count;
    bool one_call; /* the answer ends where a second call begins */
    bool ended;    /* the answer ended there */
};

/* Decodes the tokens into `speech`, which is empty except for one_call. Returns how many tokens
 * belong to the answer. */
uint32_t fleet_token_oracle_listen(const struct fleet_token_oracle *token_oracle, bool with_tools,
                                   const uint32_t *tokens, uint32_t count,
                                   struct fleet_speech *speech);
