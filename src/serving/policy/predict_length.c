/* SPDX-License-Identifier: Apache-2.0 */
#include "serving/policy/predict_length.h"

#include "base/check.h"

#define PER_DOUBLING 4

/* The bucket of a length: one each for 0..3, then four per doubling. */
static uint32_t predict_length_bucket_of(uint32_t tokens) {
    if (tokens < PER_DOUBLING) return tokens;
    uint32_t doubling = 31 - (uint32_t)__builtin_clz(tokens);
    uint32_t quarter = tokens >> (doubling - 2) & (PER_DOUBLING - 1);
    uint32_t bucket = (doubling - 1) * PER_DOUBLING + quarter;
    return bucket < PREDICT_LENGTH_BUCKETS ? bucket : PREDICT_LENGTH_BUCKETS - 1;
}

static void predict_length_fade(struct predict_length *lengths) {
    lengths->total = 0;
    for (uint32_t i = 0; i < PREDICT_LENGTH_BUCKETS; i++) {
        uint64_t kept = lengths->ended[i] / 2;
        if (lengths->ended[i]) lengths->tokens[i] = lengths->tokens[i] / lengths->ended[i] * kept;
        lengths->ended[i] = kept;
        lengths->total += kept;
    }
    for (uint32_t i = PREDICT_LENGTH_BUCKETS - 1; i-- > 0;) {
        lengths->later_ended[i] = lengths->later_ended[i + 1] + lengths->ended[i + 1];
        lengths->later_tokens[i] = lengths->later_tokens[i + 1] + lengths->tokens[i + 1];
    }
}

void predict_length_learn(struct predict_length *lengths, uint32_t tokens) {
    uint32_t bucket = predict_length_bucket_of(tokens);
    lengths->ended[bucket]++;
    lengths->tokens[bucket] += tokens;
    for (uint32_t i = 0; i < bucket; i++) {
        lengths->later_ended[i]++;
        lengths->later_tokens[i] += tokens;
    }
    if (++lengths->total == PREDICT_LENGTH_MEMORY) predict_length_fade(lengths);
}

uint32_t predict_length_left(const struct predict_length *lengths, uint32_t tokens,
                             uint32_t limit) {
    uint32_t bucket = predict_length_bucket_of(tokens);
    uint64_t ended = lengths->later_ended[bucket];
    uint64_t left = ended ? lengths->later_tokens[bucket] / ended - tokens : tokens + 1;
    return left < limit ? (uint32_t)left : limit;
}
