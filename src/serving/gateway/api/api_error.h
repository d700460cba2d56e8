/* SPDX-License-Identifier: Apache-2.0
 * An API error: its HTTP status and {"error": {message, type, param, code}}.
 *
 *   400  malformed, or asks for something unsupported                invalid_request_error
 *   402  no money is left to pay for it                              unknown_error
 *   404  no such path or model                                       invalid_request_error
 *   405  the path has another method                                 invalid_request_error
 *   413  the body is too large                                       invalid_request_error
 *   422  well-formed, but a value is out of range                    invalid_request_error
 *   429  the queue is full, or a rate is used up                     rate_limit_error
 *   503  draining, no unit, out of memory, or a failed step         server_error
 *
 * A dialect may have its own format, and may use 400 for 422 (api/dialect.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json_writer.h"
#include "contract/record_ledger.h"

struct api_error {
    uint32_t http_status;
    uint32_t retry_after_seconds; /* 0: none */
    uint32_t allow;               /* with 405: allowed methods, as in record_respond */
    enum usage_limit limit;       /* the exceeded limit, also reported as "limit" */
    const char *code;             /* a literal, or NULL */
    char param[64];               /* empty: null */
    char message[512];
};

/* Sets the error and returns false, so that a reader can `return api_error_set(...)`. `param` and
 * `code` may be NULL. The message may quote a client's text, because writers repair its UTF-8. */
bool api_error_set(struct api_error *error, uint32_t http_status, const char *param,
                   const char *code, const char *format, ...) __attribute__((format(printf, 5, 6)));

void api_error_no_memory(struct api_error *error);

struct api_length {                     /* describes a prompt that is too long */
    uint64_t prompt_tokens, tokens_max; /* tokens_max: limit of prompt and answer together */
    bool at_least;                      /* prompt_tokens is a lower bound */
    bool by_memory;             /* the limit is a unit's KV memory, not the model's context */
    const char *param, *prefix; /* the prompt's parameter; prefix of the message that identifies
                                 * it among several prompts */
};

/* Sets the error of a prompt that is too long, in the words by which clients of OpenAI's API
 * recognize that they must shorten the conversation. */
void api_error_length(struct api_error *error, const struct api_length *length);

/* Sets the error for log probabilities of a prompt that exceed the size of an answer. `param` names
 * the prompt, and `prefix` identifies it among several; both may be empty. */
void api_error_echo_size(struct api_error *error, const char *param, const char *prefix);

/* Sets the error for a server that is shutting down. */
void api_error_draining(struct api_error *error);

/* Sets the error for a request that no unit could take in time. */
void api_error_no_unit(struct api_error *error);

void api_error_write(struct json_writer *writer, const struct api_error *error);
