/* SPDX-License-Identifier: Apache-2.0
 * The API's JSON for tokens: `token_ids`, and `logprobs` in its two formats.
 *
 *   chats        {"content":[{"token","logprob","bytes","top_logprobs":[...]}],"refusal":null}, and
 *                the reasoning's tokens apart in "reasoning_content", as DeepSeek does
 *   completions  {"tokens":[],"token_logprobs":[],"top_logprobs":[{token: logprob}],
 *                "text_offset":[]}; for the first token of an echoed prompt the two are null
 *
 * A token's text is its bytes as UTF-8, with U+FFFD for invalid bytes. In completions texts are names
 * of members. There, an invalid token, or one with a zero byte (which many readers reject in names),
 * is written "bytes:\xe2\x80", as OpenAI does. A token without bytes, or without a tokenizer, is
 * "token_id:123". Log probabilities below -9999 are reported as -9999. text_offset counts characters
 * of the answer; tokens that begin inside a character have that of the next.
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

/* Characters that the token adds to the answer's text. It is, or will be, at that index of the
 * list. */
uint32_t api_tokens_characters(const struct tokenizer *tokenizer, const struct token_list *list,
                               uint32_t index, uint32_t token);

#define API_TOKENS_ID_BYTES_MAX 11 /* of one id in a list */

/* Lower estimate of the bytes of a completion's log probabilities of a prompt: the prompt's own
 * tokens have their names, the likeliest others have the shortest, and numbers have the most
 * frequent length. `each`: entries of a token, including itself. Counting stops beyond `most`. */
size_t api_tokens_echo_bytes(const struct tokenizer *tokenizer, const uint32_t *tokens,
                             uint32_t count, uint32_t each, size_t most);

/* Bytes that one token's entries need at most in either format of log probabilities. */
size_t api_tokens_bytes_max(const struct tokenizer *tokenizer, const struct token_logprob *entries,
                            uint32_t each);
