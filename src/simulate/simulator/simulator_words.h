/* SPDX-License-Identifier: Apache-2.0
 * The tokens of the simulator's prompts and answers, derived from ids. The tokens of a prompt's
 * block follow from the block's id; those after the blocks and those of answers from the request's
 * number. The module also has the tokenizer that a gateway needs to tokenize prompts: its texts
 * have one character, "#", and a request's number. Tokens of prompts and answers have no text.
 */
#pragma once

#include "base/arena.h"
#include "base/hash.h"
#include "simulate/simulator/simulator_request.h"

struct tokenizer;

enum {
    SIMULATOR_WORDS_FIRST = 512
}; /* the smallest token; all up to the vocabulary's end are used */

/* The token for a number, in a vocabulary of this size. */
static inline uint32_t simulator_words_token(uint64_t number, uint32_t vocab) {
    uint64_t bits = hash_mix(number) >> 32;
    return SIMULATOR_WORDS_FIRST + (uint32_t)(bits * (vocab - SIMULATOR_WORDS_FIRST) >> 32);
}

/* The token at that position of the answer, from 0. */
static inline uint32_t simulator_words_answer(uint64_t request, uint32_t place, uint32_t vocab) {
    return simulator_words_token((request << 24) + place, vocab);
}

/* True if a draft of the token at that position is accepted, with probability `acceptance`. */
static inline bool simulator_words_draft(uint64_t request, uint32_t place, double acceptance) {
    uint64_t bits = hash_mix(hash_mix(request) + place) >> 11;
    return (double)bits * 0x1p-53 < acceptance;
}

/* tokens_out[prompt_tokens] */
void simulator_words_prompt(const struct simulator_request *request, uint64_t number,
                            uint32_t vocab, uint32_t *tokens_out);

size_t simulator_words_bytes(void);

/* Opens the tokenizer in `arena`. */
enum status simulator_words_open(struct arena *arena, struct tokenizer **out,
                                 struct error *error) MUST_USE;
void simulator_words_close(struct tokenizer *tokenizer);
