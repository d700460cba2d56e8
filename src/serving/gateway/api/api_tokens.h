/* SPDX-License-Identifier: Apache-2.0
 * Writes the API's JSON for tokens: `token_ids`, and `logprobs` in its two formats.
 *
 *   chats        {"content":[{"token","logprob","bytes","top_logprobs":[...]}],"refusal":null}, and
 *                the reasoning's tokens apart in "reasoning_content", as DeepSeek does
 *   completions  {"tokens":[],"token_logprobs":[],"top_logprobs":[{token: logprob}],
 *                "text_offset":[]}; for the first token of an echoed prompt the two are null
 *
 * A token's text is its bytes as UTF-8, with U+FFFD for invalid bytes. In completions, token texts
 * are names of members. There, a token with invalid UTF-8 or with a zero byte (which many readers
 * reject in names) is written "bytes:\xe2\x80", as OpenAI does. A token without bytes, and any
 * token if there is no tokenizer, is "token_id:123". Log probabilities below -9999 are reported as
 * -9999. text_offset counts characters of the answer. A token that begins inside a character has
 * the offset of the next character.
 */
#pragma once

#include "base/json_writer.h"
#include "serving/gateway/api/token_list.h"
#include "serving/text/tokenizer.h"

/* Each writes the member's value. `tokenizer` may be NULL. */
void api_tokens_ids(struct json_writer *writer, const struct token_list *list, uint32_t from,
                    uint32_t to);
void api_tokens_chat_logprobs(struct json_writer *writer, const struct tokenizer *tokenizer,
                              const struct token_list *list, uint32_t from, uint32_t to);
/* Writes only the array of a chat's "content", of tokens [from, to). */
void api_tokens_logprobs(struct json_writer *writer, const struct tokenizer *tokenizer,
                         const struct token_list *list, uint32_t from, uint32_t to);
/* All of `echoed`, then [from, to) of `tokens`; either may be NULL. */
void api_tokens_completion_logprobs(struct json_writer *writer, const struct tokenizer *tokenizer,
                                    const struct token_list *echoed,
                                    const struct token_list *tokens, uint32_t from, uint32_t to);

/* Counts the characters that the token adds to the answer's text. The token is, or will be, at
 * `index` of the list. */
uint32_t api_tokens_characters(const struct tokenizer *tokenizer, const struct token_list *list,
                               uint32_t index, uint32_t token);

#define API_TOKENS_ID_BYTES_MAX 11 /* bytes of one id in a list, with its comma */

/* A low estimate of the bytes of a completion's log probabilities of a prompt. It takes the
 * prompt's tokens with their real names, the top alternatives with the shortest names, and numbers
 * of the most frequent length. `each`: entries per token, including itself. Counting stops beyond
 * `most`. */
size_t api_tokens_echo_bytes(const struct tokenizer *tokenizer, const uint32_t *tokens,
                             uint32_t count, uint32_t each, size_t most);

/* The most bytes of one token's entries in either format of log probabilities. */
size_t api_tokens_bytes_max(const struct tokenizer *tokenizer, const struct token_logprob *entries,
                            uint32_t each);
