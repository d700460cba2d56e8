/* SPDX-License-Identifier: Apache-2.0
 * How a request wants its tokens chosen, and what it wants to know of them. A gateway asks it of a
 * unit, and a unit of its engine.
 */
#ifndef CONTRACT_SAMPLING_H
#define CONTRACT_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

/* How to choose a token; compute/model/sample.h says in which order all this is done. Temperature 0
 * is greedy (ties: lowest id). Zero turns every other field off but top_p, which 1 does. */
struct sampling {
    float temperature;
    float top_p;              /* 1: off */
    float min_p;              /* 0: off */
    float frequency_penalty;  /* -2..2; 0: off */
    float presence_penalty;   /* -2..2; 0: off */
    float repetition_penalty; /* 0 and 1: off */
    uint32_t top_k;           /* 0: off */
    uint32_t choice;          /* index of the answer among n */
    uint32_t min_tokens;      /* the first so many tokens are no stop tokens */
    uint32_t top_logprobs;    /* 0..LIMIT_TOP_LOGPROBS; only with SAMPLING_LOGPROBS */
    uint32_t flags;           /* SAMPLING_... */
    uint32_t reserved;        /* zero */
    uint64_t seed;
};

/* Tell the log probabilities of each chosen token and of the top_logprobs likeliest ones. */
#define SAMPLING_LOGPROBS 1u
/* With SAMPLING_LOGPROBS: tell them for each token of the prompt, too. */
#define SAMPLING_SCORES 2u
#define SAMPLING_FLAGS 3u

/* True if choosing needs to know the tokens before. */
static inline bool sampling_needs_history(const struct sampling *sampling) {
    return sampling->frequency_penalty != 0 || sampling->presence_penalty != 0 ||
           (sampling->repetition_penalty != 0 && sampling->repetition_penalty != 1);
}

struct token_bias {
    uint32_t token;
    float bias; /* added to the logit: -100..100, or minus infinity: never this token */
};

struct token_logprob {
    uint32_t token;
    float logprob; /* finite, at most 0 */
};

#define TOKEN_LOGPROBS_MAX                                                                         \
    (1 + LIMIT_TOP_LOGPROBS) /* of one token: its own, and the likeliest ones' */

/* True if the fields may be so, in a record of a unit or a step. */
bool sampling_valid(const struct sampling *sampling);
bool sampling_token_biases_valid(const struct token_bias *biases, uint32_t count);
bool sampling_token_logprobs_valid(const struct token_logprob *logprobs, uint64_t count);

#endif
