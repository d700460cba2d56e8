/* SPDX-License-Identifier: Apache-2.0
 * Tokens in the words of the API: `token_ids`, and `logprobs` in its two shapes.
 *
 *   chats        {"content":[{"token","logprob","bytes","top_logprobs":[...]}],"refusal":null}, and
 *                the reasoning's tokens apart in "reasoning_content", as DeepSeek does
 *   completions  {"tokens":[],"token_logprobs":[],"top_logprobs":[{token: logprob}],
 *                "text_offset":[]}; of the first token of a prompt that is echoed the two are null
 *
 * A token's text is its bytes as UTF-8, with U+FFFD for what is none; in completions, where texts
 * are names of members, such a token, or one with a zero byte (many readers take none in names), is
 * written "bytes:\xe2\x80", as OpenAI does. A token without bytes, or without a tokenizer, is
 * "token_id:123". Log probabilities below -9999 are told as -9999. text_offset counts characters of
 * the answer; tokens that begin inside a character have that of the next.
 */
#ifndef SERVING_GATEWAY_API_API_TOKENS_H
#define SERVING_GATEWAY_API_API_TOKENS_H

#include "base/json_writer.h"
#include "serving/gateway/api/token_list.h"
#include "serving/text/tokenizer.h"

/* Each writes the member's value. `tokenizer` may be NULL. */
void api_tokens_ids(struct json_writer *writer, const struct token_list *list, uint32_t from,
                    uint32_t to);
void api_tokens_chat_logprobs(struct json_writer *writer, const struct tokenizer *tokenizer,
                              const struct token_list *list, uint32_t from, uint32_t to);
/* The array of a chat's "content" alone, of tokens [from, to). */
void api_tokens_logprobs(struct json_writer *writer, const struct tokenizer *tokenizer,
                         const struct token_list *list, uint32_t from, uint32_t to);
/* All of `echoed`, then [from, to) of `tokens`; either may be NULL. */
void api_tokens_completion_logprobs(struct json_writer *writer, const struct tokenizer *tokenizer,
                                    const struct token_list *echoed,
                                    const struct token_list *tokens, uint32_t from, uint32_t to);

/* Characters that the token, which is or will be the index'th of the list, adds to the answer's
 * text. */
uint32_t api_tokens_characters(const struct tokenizer *tokenizer, const struct token_list *list,
                               uint32_t index, uint32_t token);

#define API_TOKENS_ID_BYTES_MAX 11 /* of one id among others */

/* Bytes that a completion's log probabilities of a prompt take as a rule at least: the prompt's own
 * tokens have their names, the likeliest others have the shortest, and numbers are as long as most.
 * `each`: entries of a token, itself among them. Counting stops beyond `most`. */
size_t api_tokens_echo_bytes(const struct tokenizer *tokenizer, const uint32_t *tokens,
                             uint32_t count, uint32_t each, size_t most);

/* What one token's entries can need in either shape of log probabilities. */
size_t api_tokens_bytes_max(const struct tokenizer *tokenizer, const struct token_logprob *entries,
                            uint32_t each);

#endif
