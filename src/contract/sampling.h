/* SPDX-License-Identifier: Apache-2.0
 * The sampling parameters of a request, and the log probabilities that it asks for. A gateway sends
 * them to a unit, and a unit to its engine.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

/* The sampling parameters. compute/model/sample.h documents the order of the operations.
 * Temperature 0 is greedy; the lowest id wins a tie. Every other field is disabled by zero, except
 * top_p, which is disabled by 1. */
struct sampling {
    float temperature;
    float top_p;              /* 1: off */
    float min_p;              /* 0: off */
    float frequency_penalty;  /* -2..2; 0: off */
    float presence_penalty;   /* -2..2; 0: off */
    float repetition_penalty; /* 0 and 1: off */
    uint32_t top_k;           /* 0: off */
    uint32_t choice;          /* index of the answer among the request's n */
    uint32_t min_tokens;      /* no stop token is chosen before the answer has this many tokens */
    uint32_t top_logprobs;    /* 0..LIMIT_TOP_LOGPROBS; only with SAMPLING_LOGPROBS */
    uint32_t flags;           /* SAMPLING_... */
    uint32_t reserved;        /* zero */
    uint64_t seed;
};

/* Return the log probability of each chosen token, and those of the top_logprobs most likely
 * tokens. */
#define SAMPLING_LOGPROBS 1u
/* With SAMPLING_LOGPROBS: also return them for each prompt token. */
#define SAMPLING_SCORES 2u
#define SAMPLING_FLAGS 3u

/* True if sampling depends on the earlier tokens. */
static inline bool sampling_needs_history(const struct sampling *sampling) {
    return sampling->frequency_penalty != 0 || sampling->presence_penalty != 0 ||
           (sampling->repetition_penalty != 0 && sampling->repetition_penalty != 1);
}

struct token_bias {
    uint32_t token;
    float bias; /* added to the logit: -100..100, or minus infinity to exclude the token */
};

struct token_logprob {
    uint32_t token;
    float logprob; /* finite, at most 0 */
};

#define TOKEN_LOGPROBS_MAX                                                                         \
    (1 + LIMIT_TOP_LOGPROBS) /* entries of one token: its own and the most likely ones */

/* True if the fields are valid in a record. */
bool sampling_valid(const struct sampling *sampling);
bool sampling_token_biases_valid(const struct token_bias *biases, uint32_t count);
bool sampling_token_logprobs_valid(const struct token_logprob *logprobs, uint64_t count);
