/* SPDX-License-Identifier: Apache-2.0
 * The tokens of prompts and answers in the simulator. The tokens of a prompt block follow from the
 * block's id; tokens after the blocks, and tokens of answers, follow from the request's number. The
 * module also has the tokenizer for gateways that tokenize prompts. Its texts are one character,
 * "#", and the number of a request. Tokens of prompts and answers have no text.
 */
#pragma once

#include "base/arena.h"
#include "base/hash.h"
#include "simulate/simulator/simulator_request.h"

struct tokenizer;

enum {
    SIMULATOR_WORDS_FIRST = 512
}; /* the smallest token id; all from here to the end of the vocabulary are used */

/* The token for a number, in a vocabulary of this size. */
static inline uint32_t simulator_words_token(uint64_t number, uint32_t vocab) {
    uint64_t bits = hash_mix(number) >> 32;
    return SIMULATOR_WORDS_FIRST + (uint32_t)(bits * (vocab - SIMULATOR_WORDS_FIRST) >> 32);
}

/* The token at a position of an answer, from 0. */
static inline uint32_t simulator_words_answer(uint64_t request, uint32_t place, uint32_t vocab) {
    return simulator_words_token((request << 24) + place, vocab);
}

/* True if a draft of the token at that position is accepted, with probability `acceptance`. */
static inline bool simulator_words_draft(uint64_t request, uint32_t place, double acceptance) {
    uint64_t bits = hash_mix(hash_mix(request) + place) >> 11;
    return (double)bits * 0x1p-53 < acceptance;
}

/* Writes the tokens of a prompt to tokens_out[prompt_tokens]. */
void simulator_words_prompt(const struct simulator_request *request, uint64_t number,
                            uint32_t vocab, uint32_t *tokens_out);

size_t simulator_words_bytes(void);

/* Opens the tokenizer in `arena`. */
enum status simulator_words_open(struct arena *arena, struct tokenizer **out,
                                 struct error *error) MUST_USE;
void simulator_words_close(struct tokenizer *tokenizer);
